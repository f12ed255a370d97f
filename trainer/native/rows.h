/* What the reader of the ring (rows.c) hands on within the library. */
#include <stdint.h>

/* Numbers in a row, its kind among them. */
#define WIDTH 8

/* Copies at most `most` rows of WIDTH numbers to `into`, oldest first, and leaves them in the ring; says how many, or -1
 * where some were written over before they were read. One caller at a time, which takes no rows meanwhile. */
int64_t rows_seen(double *into, uint64_t most);

/* Takes the oldest rows away, of those that were seen. */
void rows_drop(uint64_t number);

/* Collectives that were entered since the last call. */
uint64_t tfscale_entered(void);
