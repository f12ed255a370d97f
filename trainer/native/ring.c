/* TfscaleStamp, a TensorFlow op that takes the time and writes it into a row of numbers. The stamps of a graph fill a
 * row together; a full row goes into the ring.
 *
 * TfscaleStamp(tensors: T...; row, places, whole, kind: int; timed, enters, checks: bool) has no outputs. If it is
 * `timed` it takes the time, and does not read its tensors; else it writes them, which are doubles. `places` are the
 * bits of its places in the row, `whole` the bits of all places; `row` is the number of the row among those of the
 * process's graphs, -1 for none. One that `checks` writes a row of its own, but only if numbers among its tensors are
 * not finite: the time, the index of the first such tensor, and how many of the tensors have such numbers. The kernel is registered through TensorFlow's C API, which is stable across versions. Its
 * functions are looked up in the library that the process has loaded: this library is built without TensorFlow.
 * tfscale/trainer/probe/rows/ring.py is its only user.
 *
 * Stamps belong together if TensorFlow runs them in the same step, and in the same iteration of a loop in it. If a
 * function is called several times in one of these, its calls follow each other, and a stamp belongs to the oldest
 * call that has none in its place yet. A row whose other stamps never come, because their step has failed, gives way
 * to newer ones.
 *
 * Any number of threads write to the ring, one reads. A writer draws a ticket, marks the ticket's slot as unfinished,
 * fills it, and signs it. A slot that is not signed by the ticket that is due is either not finished yet or was taken
 * by a later ticket. A writer that stood still while all other slots were written could sign a row of mixed numbers;
 * the reader, which stops at unfinished rows, would by then have counted most of them as lost.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OP "TfscaleStamp"
/* Numbers in a row, its kind among them. */
#define WIDTH 8
/* Rows that are kept until they are read: a power of two. */
#define SLOTS 65536u
/* Numbers that are checked without a branch, so that the compiler makes vector instructions of them. */
#define BLOCK 1024
/* Types of tensors that are checked (TF_DataType). */
enum { FLOAT = 1, DOUBLE = 2, BFLOAT16 = 14, HALF = 19 };
/* Incomplete rows that each row of a graph may have at a time. */
#define MOST_PARTIAL 16

typedef struct {
    _Atomic uint64_t signature; /* The ticket that filled it, counted from 1; 0 while it is being filled. */
    _Atomic double numbers[WIDTH];
} Slot;

/* One passage of TensorFlow through a graph. */
typedef struct {
    int64_t step;
    uint64_t frame;
    int64_t iteration;
} Passage;

typedef struct {
    Passage passage;
    unsigned filled; /* Bits of the places that are. */
    double numbers[WIDTH - 1];
} PartialRow;

/* Row of a graph, and its passages of which not all stamps were taken yet, oldest first. */
typedef struct {
    pthread_mutex_t lock;
    int count;
    PartialRow partial[MOST_PARTIAL];
} Row;

typedef struct {
    Row *row;
    unsigned places, whole;
    double kind;
    bool timed, enters, checks;
} Stamp;

static Slot slots[SLOTS];
static _Atomic uint64_t drawn;   /* Tickets so far. */
static uint64_t due;             /* The next ticket to be read. */
static _Atomic uint64_t entered; /* Collectives since the last call of tfscale_entered. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* Lock of the following two. */
static Row **rows;                                       /* Rows by number; they are never freed. */
static int64_t count;

/* Functions of TensorFlow's C API (tensorflow/c/kernels.h, ops.h, tf_status.h, tf_tensor.h); all types are opaque. */
static struct {
    void *(*new_status)(void);
    void (*delete_status)(void *);
    int (*code)(const void *);
    void (*int64_attribute)(void *construction, const char *name, int64_t *value, void *status);
    void (*bool_attribute)(void *construction, const char *name, unsigned char *value, void *status);
    int64_t (*step)(void *context);
    uint64_t (*frame)(void *context);
    int64_t (*iteration)(void *context);
    int (*inputs)(void *context);
    void (*input)(void *context, int index, void **tensor, void *status);
    int (*type)(const void *tensor);
    size_t (*size)(const void *tensor);
    void *(*data)(const void *tensor);
    void (*delete_tensor)(void *);
    void *(*new_op)(const char *name);
    void (*add_input)(void *op, const char *specification);
    void (*add_attribute)(void *op, const char *specification);
    void (*set_stateful)(void *op, bool);
    void (*register_op)(void *op, void *status);
    void *(*new_kernel)(const char *op, const char *device, void *(*create)(void *), void (*compute)(void *, void *),
                        void (*destroy)(void *));
    void (*register_kernel)(const char *name, void *kernel, void *status);
} tf;

static const struct {
    const char *name;
    void *where;
} functions[] = {
    {"TF_NewStatus", &tf.new_status},
    {"TF_DeleteStatus", &tf.delete_status},
    {"TF_GetCode", &tf.code},
    {"TF_OpKernelConstruction_GetAttrInt64", &tf.int64_attribute},
    {"TF_OpKernelConstruction_GetAttrBool", &tf.bool_attribute},
    {"TF_GetStepId", &tf.step},
    {"TF_GetFrameId", &tf.frame},
    {"TF_GetIterId", &tf.iteration},
    {"TF_NumInputs", &tf.inputs},
    {"TF_GetInput", &tf.input},
    {"TF_TensorType", &tf.type},
    {"TF_TensorByteSize", &tf.size},
    {"TF_TensorData", &tf.data},
    {"TF_DeleteTensor", &tf.delete_tensor},
    {"TF_NewOpDefinitionBuilder", &tf.new_op},
    {"TF_OpDefinitionBuilderAddInput", &tf.add_input},
    {"TF_OpDefinitionBuilderAddAttr", &tf.add_attribute},
    {"TF_OpDefinitionBuilderSetIsStateful", &tf.set_stateful},
    {"TF_RegisterOpDefinition", &tf.register_op},
    {"TF_NewKernelBuilder", &tf.new_kernel},
    {"TF_RegisterKernelBuilder", &tf.register_kernel},
};

/* Returns the row of this number; NULL if there is none, or no memory. */
static Row *row_of(int64_t number) {
    if (number < 0) return NULL;
    Row *row = NULL;
    pthread_mutex_lock(&lock);
    if (number >= count) {
        Row **more = realloc(rows, (size_t)(2 * number + 16) * sizeof *rows);
        if (more) {
            rows = more;
            for (; count < 2 * number + 16; count++) rows[count] = NULL;
        }
    }
    if (number < count) {
        if (!rows[number] && (rows[number] = calloc(1, sizeof(Row)))) pthread_mutex_init(&rows[number]->lock, NULL);
        row = rows[number];
    }
    pthread_mutex_unlock(&lock);
    return row;
}

static int64_t int_attribute(void *construction, const char *attribute, void *status) {
    int64_t value = 0;
    tf.int64_attribute(construction, attribute, &value, status);
    return value;
}

static bool bool_attribute(void *construction, const char *attribute, void *status) {
    unsigned char value = 0;
    tf.bool_attribute(construction, attribute, &value, status);
    return value;
}

static void *create(void *construction) {
    Stamp *stamp = malloc(sizeof *stamp);
    if (!stamp) return NULL;
    void *status = tf.new_status();
    *stamp = (Stamp){
        .row = row_of(int_attribute(construction, "row", status)),
        .places = (unsigned)int_attribute(construction, "places", status),
        .whole = (unsigned)int_attribute(construction, "whole", status),
        .kind = (double)int_attribute(construction, "kind", status),
        .timed = bool_attribute(construction, "timed", status),
        .enters = bool_attribute(construction, "enters", status),
        .checks = bool_attribute(construction, "checks", status),
    };
    tf.delete_status(status);
    return stamp;
}

static void put(Slot *slot, int place, double number) {
    atomic_store_explicit(&slot->numbers[place], number, memory_order_relaxed);
}

/* Appends a row to the ring. */
static void append(double kind, const double *numbers) {
    uint64_t ticket = atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed);
    Slot *slot = &slots[ticket % SLOTS];
    atomic_store_explicit(&slot->signature, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    put(slot, 0, kind);
    for (int place = 1; place < WIDTH; place++) put(slot, place, numbers[place - 1]);
    atomic_store_explicit(&slot->signature, ticket + 1, memory_order_release);
}

/* Returns the partial row to which a stamp belongs, a new one if need be. */
static PartialRow *partial_row_of(Row *row, const Passage *passage, unsigned places) {
    for (PartialRow *partial = row->partial; partial < row->partial + row->count; partial++)
        if (!memcmp(&partial->passage, passage, sizeof *passage) && !(partial->filled & places)) return partial;
    if (row->count == MOST_PARTIAL) memmove(row->partial, row->partial + 1, --row->count * sizeof *row->partial);
    PartialRow *partial = &row->partial[row->count++];
    *partial = (PartialRow){.passage = *passage};
    return partial;
}

static void write_time(PartialRow *partial, unsigned places, double time) {
    for (int place = 0; places >> place; place++)
        if (places >> place & 1) partial->numbers[place] = time;
}

static void write_values(PartialRow *partial, unsigned places, void *context) {
    void *status = tf.new_status();
    for (int place = 0, index = 0; places >> place; place++) {
        if (!(places >> place & 1)) continue;
        void *tensor = NULL;
        tf.input(context, index++, &tensor, status);
        if (!tensor) continue;
        partial->numbers[place] = *(const double *)tf.data(tensor);
        tf.delete_tensor(tensor);
    }
    tf.delete_status(status);
}

/* Defines a function that decides whether all of some floating-point numbers are finite: the exponent of others, the
 * infinities and what is no number, has all its bits set. */
#define DEFINE_ARE_FINITE(name, bits, exponent)                                                        \
    static bool name(const bits *numbers, size_t count) {                                              \
        size_t index = 0;                                                                              \
        for (; index + BLOCK <= count; index += BLOCK) {                                               \
            bits others = 0;                                                                           \
            for (size_t each = 0; each < BLOCK; each++)                                                \
                others |= (bits) - (bits)((numbers[index + each] & (bits)(exponent)) == (bits)(exponent)); \
            if (others) return false;                                                                  \
        }                                                                                              \
        for (; index < count; index++)                                                                 \
            if ((numbers[index] & (bits)(exponent)) == (bits)(exponent)) return false;                 \
        return true;                                                                                   \
    }
DEFINE_ARE_FINITE(are_finite_floats, uint32_t, 0x7f800000)
DEFINE_ARE_FINITE(are_finite_doubles, uint64_t, 0x7ff0000000000000)
DEFINE_ARE_FINITE(are_finite_bfloats, uint16_t, 0x7f80)
DEFINE_ARE_FINITE(are_finite_halves, uint16_t, 0x7c00)

/* Decides whether all numbers of a tensor are finite; those of other types count as finite. */
static bool is_finite(const void *tensor) {
    const void *numbers = tf.data(tensor);
    size_t size = tf.size(tensor);
    switch (tf.type(tensor)) {
    case FLOAT:
        return are_finite_floats(numbers, size / 4);
    case DOUBLE:
        return are_finite_doubles(numbers, size / 8);
    case BFLOAT16:
        return are_finite_bfloats(numbers, size / 2);
    case HALF:
        return are_finite_halves(numbers, size / 2);
    default:
        return true;
    }
}

/* Appends a row if not all tensors of a stamp are finite. */
static void check(double kind, double time, void *context) {
    double numbers[WIDTH - 1] = {time};
    void *status = tf.new_status();
    for (int index = tf.inputs(context) - 1; index >= 0; index--) {
        void *tensor = NULL;
        tf.input(context, index, &tensor, status);
        if (!tensor) continue;
        if (!is_finite(tensor)) {
            numbers[1] = index;
            numbers[2]++;
        }
        tf.delete_tensor(tensor);
    }
    tf.delete_status(status);
    if (numbers[2]) append(kind, numbers);
}

static double seconds_of(struct timespec time) { return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec; }

static void compute(void *kernel, void *context) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    const Stamp *stamp = kernel;
    if (!stamp) return;
    if (stamp->enters) atomic_fetch_add_explicit(&entered, 1, memory_order_relaxed);
    if (stamp->checks) check(stamp->kind, seconds_of(now), context);
    Row *row = stamp->row;
    if (!row) return;
    Passage passage = {tf.step(context), tf.frame(context), tf.iteration(context)};
    pthread_mutex_lock(&row->lock);
    PartialRow *partial = partial_row_of(row, &passage, stamp->places);
    if (stamp->timed)
        write_time(partial, stamp->places, seconds_of(now));
    else
        write_values(partial, stamp->places, context);
    partial->filled |= stamp->places;
    if (partial->filled == stamp->whole) {
        append(stamp->kind, partial->numbers);
        memmove(partial, partial + 1, (size_t)(row->partial + row->count - (partial + 1)) * sizeof *partial);
        row->count--;
    }
    pthread_mutex_unlock(&row->lock);
}

/* In a graph that XLA compiles a stamp takes no time: there is none. */
static void compute_nothing(void *kernel, void *context) {
    (void)kernel;
    (void)context;
}

static void *create_nothing(void *construction) {
    (void)construction;
    return NULL;
}

static const struct {
    const char *device;
    void *(*create)(void *);
    void (*compute)(void *, void *);
} kernels[] = {
    {"CPU", create, compute},
    {"XLA_CPU_JIT", create_nothing, compute_nothing},
    {"XLA_GPU_JIT", create_nothing, compute_nothing},
};

static const char *const attributes[] = {"T: list(type) >= 0", "row: int",    "places: int",  "whole: int",
                                         "kind: int",          "timed: bool", "enters: bool", "checks: bool = false"};

/* Registers op and kernels in the library of this handle, for rows of `width` numbers. Returns NULL, or why not: the
 * name of a function that the library lacks, "WIDTH" if the rows here have another width, or the name of the op. Call
 * it once. */
const char *tfscale_register(void *library, int width) {
    if (width != WIDTH) return "WIDTH";
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *address = dlsym(library, functions[index].name);
        if (!address) return functions[index].name;
        memcpy(functions[index].where, &address, sizeof address);
    }
    void *op = tf.new_op(OP), *status = tf.new_status();
    tf.add_input(op, "tensors: T");
    for (size_t index = 0; index < sizeof attributes / sizeof *attributes; index++)
        tf.add_attribute(op, attributes[index]);
    tf.set_stateful(op, true);
    tf.register_op(op, status);
    for (size_t index = 0; index < sizeof kernels / sizeof *kernels && tf.code(status) == 0; index++) {
        void *kernel = tf.new_kernel(OP, kernels[index].device, kernels[index].create, kernels[index].compute, free);
        tf.register_kernel(OP, kernel, status);
    }
    bool registered = tf.code(status) == 0;
    tf.delete_status(status);
    return registered ? NULL : OP;
}

/* Returns the number of collectives that were entered since the last call. */
uint64_t tfscale_entered(void) { return atomic_exchange_explicit(&entered, 0, memory_order_relaxed); }

/* Copies the row of this ticket. Returns 1, 0 if it is not there yet, or -1 if it was written over. */
static int read_row(uint64_t ticket, double *into) {
    Slot *slot = &slots[ticket % SLOTS];
    uint64_t signature = atomic_load_explicit(&slot->signature, memory_order_acquire);
    if (signature <= ticket) return 0;
    for (int place = 0; place < WIDTH; place++)
        into[place] = atomic_load_explicit(&slot->numbers[place], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    bool whole = signature == ticket + 1 && atomic_load_explicit(&slot->signature, memory_order_relaxed) == signature;
    return whole ? 1 : -1;
}

/* Moves at most `most` rows of WIDTH numbers to `into`, oldest first, and returns how many; adds the number of rows
 * that were written over before they were read to `lost`. Only one thread may call it at a time. */
uint64_t tfscale_take(double *into, uint64_t most, uint64_t *lost) {
    uint64_t taken = 0, end = atomic_load_explicit(&drawn, memory_order_acquire);
    if (end - due > SLOTS) {
        *lost += end - SLOTS - due;
        due = end - SLOTS;
    }
    for (; due < end && taken < most; due++) {
        int state = read_row(due, into + WIDTH * taken);
        if (!state) break;
        if (state > 0)
            taken++;
        else
            ++*lost;
    }
    return taken;
}
