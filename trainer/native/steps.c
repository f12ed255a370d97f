/* Usual steps, from the rows in the ring to the message that tells them: what `StepAssembler` (probe/steps.py) and
 * `wire.message` (probe/wire.py) say of them. It comes once a second, when all code has left the processor's caches; so
 * there is to be little of it. tfscale/trainer/probe/express.py is its only user.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "rows.h"
#include "steps.h"

/* Rows of one read; more are left to others. */
#define MOST 4096
#define PHASES 5
/* Bytes of a whole number in a message, at the most. */
#define LONGEST 10
/* Bytes with which a batch of steps, and all, may begin. */
#define HEAD 512
#define BATCH (HEAD + MOST * (2 * LONGEST + 8 + 4 * PHASES) + 128)

/* Columns of the steps of one read. */
typedef struct {
    double end[MOST];
    float phases[PHASES][MOST];
} Columns;

static double rows[MOST][WIDTH];
static Columns columns;
static unsigned char batch[BATCH], message[BATCH + 128];
static Told told;

/* Fields of protos/tfscale/v1/report.proto and telemetry.proto, and how protobuf writes them. */
enum { REPORT_COLLECTIVE = 3, REPORT_STEPS = 4 };
enum { ENTERED = 1, LEFT, ENTERED_AT };
enum { SEQUENCE = 5, GLOBAL_STEP, END, UPDATE };
enum { NUMBER = 0, DOUBLE = 1, BYTES = 2 };

static unsigned char *put_number(unsigned char *to, uint64_t number) {
    for (; number >= 0x80; number >>= 7) *to++ = (unsigned char)(number | 0x80);
    *to++ = (unsigned char)number;
    return to;
}

static unsigned char *put_tag(unsigned char *to, unsigned field, unsigned type) {
    return put_number(to, field << 3 | type);
}

static unsigned char *put_bytes(unsigned char *to, unsigned field, const void *from, uint64_t length) {
    to = put_number(put_tag(to, field, BYTES), length);
    memcpy(to, from, length);
    return to + length;
}

/* So many numbers from `first` on. */
static unsigned char *put_range(unsigned char *to, unsigned field, uint64_t first, uint64_t number) {
    unsigned char one[LONGEST];
    uint64_t length = 0;
    for (uint64_t each = first; each < first + number; each++) length += (uint64_t)(put_number(one, each) - one);
    to = put_number(put_tag(to, field, BYTES), length);
    for (uint64_t each = first; each < first + number; each++) to = put_number(to, each);
    return to;
}

static uint64_t put_collective(unsigned char *begin, const Course *course) {
    unsigned char *to = put_number(put_tag(begin, ENTERED, NUMBER), (uint64_t)course->entered);
    to = put_number(put_tag(to, LEFT, NUMBER), (uint64_t)(course->left + course->waiting));
    if (!isnan(course->entered_at)) {
        to = put_tag(to, ENTERED_AT, DOUBLE);
        memcpy(to, &course->entered_at, sizeof course->entered_at);
        to += sizeof course->entered_at;
    }
    return (uint64_t)(to - begin);
}

static uint64_t put_steps(unsigned char *begin, const Course *course, uint64_t number) {
    memcpy(begin, course->head, (size_t)course->head_length);
    unsigned char *to = put_range(begin + course->head_length, SEQUENCE, (uint64_t)course->sequence, number);
    if (course->counts) to = put_range(to, GLOBAL_STEP, (uint64_t)course->iteration, number);
    to = put_bytes(to, END, columns.end, number * sizeof *columns.end);
    /* Without a collective nothing is known of the last phase. */
    for (unsigned phase = 0; phase < PHASES - !course->collectives; phase++)
        to = put_bytes(to, UPDATE + phase, columns.phases[phase], number * sizeof **columns.phases);
    return (uint64_t)(to - begin);
}

/* The columns of so many steps, and where they end. 0 where these rows do not follow each other as usual steps do. */
static int fold(Course *course, uint64_t number) {
    double exit = course->exit, updated = course->after_update, reduction = course->after_reduction;
    course->most_examples = course->newest_bytes = 0.0;
    for (uint64_t step = 0; step < number; step++) {
        const double *row = rows[step];
        if ((int64_t)row[0] != course->kind) return 0;
        double ready = row[course->ready], reduced = row[course->reduced];
        /* Nothing waits for the stamp at which a batch is asked for: it may be taken when the batch is there already. */
        double asked = fmin(row[course->asked], ready);
        /* Collectives run one after the other. */
        double entering = fmax(row[course->entering], fmin(reduction, reduced));
        double legs[] = {updated - exit, asked - updated, ready - asked, entering - ready, reduced - entering};
        for (int leg = 0; leg < PHASES; leg++) {
            if (!(legs[leg] >= 0.0)) return 0;
            columns.phases[leg][step] = (float)legs[leg];
        }
        if (!(row[course->updated] >= reduced) || legs[1] > course->idle) return 0;
        columns.end[step] = reduced;
        course->lasted[(course->steps + (int64_t)step) % REMEMBERED] = reduced - exit;
        exit = reduction = reduced;
        updated = row[course->updated];
        if (course->examples) course->most_examples = fmax(course->most_examples, row[course->examples]);
        if (course->bytes) course->newest_bytes = row[course->bytes];
        course->most_bytes = fmax(course->most_bytes, course->newest_bytes);
    }
    course->exit = exit;
    course->after_update = updated;
    course->after_reduction = reduction;
    return 1;
}

static void count_entered(Course *course) {
    uint64_t more = tfscale_entered();
    if (!more) return;
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    course->entered += (int64_t)more;
    course->entered_at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Bytes of one course, for whoever lays it out elsewhere. */
uint64_t tfscale_course_size(void) { return sizeof(Course); }

const Told *steps_told(Course *course, const double *early, uint64_t number, double horizon) {
    if (number > MOST || course->head_length > HEAD) return NULL;
    memcpy(rows, early, number * sizeof *rows);
    int64_t more = rows_seen(rows[number], MOST - number);
    if (more < 0 || number + (uint64_t)more == MOST) return NULL;
    /* Counted after the rows were seen: what was left had been entered before. */
    count_entered(course);
    uint64_t all = number + (uint64_t)more, over = all;
    while (over && !(rows[over - 1][course->updated] <= horizon)) over--;
    Course *after = &told.after;
    *after = *course;
    /* All that came early is over by now. */
    if (!over || over < number || !fold(after, over)) return NULL;
    after->left += (int64_t)over * course->collectives;
    after->waiting = (int64_t)(all - over) * course->collectives;
    unsigned char collective[64];
    unsigned char *to = put_bytes(message, REPORT_COLLECTIVE, collective, put_collective(collective, after));
    to = put_bytes(to, REPORT_STEPS, batch, put_steps(batch, course, over));
    after->steps += (int64_t)over;
    after->sequence += (int64_t)over;
    after->iteration += (int64_t)over;
    told.message = message;
    told.length = (uint64_t)(to - message);
    told.taken = over - number;
    return &told;
}

void steps_go_on(Course *course, const Told *these) {
    *course = these->after;
    rows_drop(these->taken);
}

/* Tells such steps, if there are any: the length of the report, which lies at `message`, or 0. */
uint64_t tfscale_steps(Course *course, const double *early, uint64_t number, double horizon, const void **message_at) {
    const Told *found = steps_told(course, early, number, horizon);
    if (!found) return 0;
    steps_go_on(course, found);
    *message_at = found->message;
    return found->length;
}
