/* A TensorFlow op that writes a row of numbers into a ring, for about what an op costs that does nothing.
 *
 * TfscaleRow(values: N * double; kind: int) has no outputs. Its kernel is registered through TensorFlow's C API, which is
 * stable across versions; the functions are looked up in the library that the process has loaded already, so that this one
 * is built without TensorFlow, and by itself does nothing. tfscale/trainer/probe/ring.py is its only user.
 *
 * Any number of threads write, one reads. A writer draws a ticket, marks the ticket's slot as unfinished, fills it, and
 * signs it. A slot that is not signed by the ticket that is due is either not finished yet or was taken by a later one. A
 * writer that stood still while all other slots were written could sign a row of mixed numbers; the reader, which
 * stops at unfinished rows, would by then have told most of them as lost.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OP "TfscaleRow"
/* Numbers in a row, its kind among them. */
#define WIDTH 8
/* Rows that are kept until they are read; a power of two. */
#define SLOTS 65536u

typedef struct {
    _Atomic uint64_t signature; /* The ticket that filled it, counted from 1; 0 while it is being filled. */
    _Atomic double numbers[WIDTH];
} Slot;

typedef struct {
    double number;
} Kind;

static Slot slots[SLOTS];
static _Atomic uint64_t drawn; /* Tickets so far. */
static uint64_t due;           /* The next ticket to be read. */

/* What is used of TensorFlow's C API (tensorflow/c/kernels.h, ops.h, tf_status.h, tf_tensor.h); all types are opaque. */
static struct {
    void *(*new_status)(void);
    void (*delete_status)(void *);
    int (*code)(const void *);
    void (*int64_attribute)(void *construction, const char *name, int64_t *value, void *status);
    int (*inputs)(void *context);
    void (*input)(void *context, int index, void **tensor, void *status);
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
    {"TF_NumInputs", &tf.inputs},
    {"TF_GetInput", &tf.input},
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

static void *create(void *construction) {
    int64_t number = 0;
    void *status = tf.new_status();
    tf.int64_attribute(construction, "kind", &number, status);
    tf.delete_status(status);
    Kind *kind = malloc(sizeof *kind);
    if (kind) kind->number = (double)number;
    return kind;
}

static void put(Slot *slot, int place, double number) {
    atomic_store_explicit(&slot->numbers[place], number, memory_order_relaxed);
}

static void compute(void *kernel, void *context) {
    const Kind *kind = kernel;
    if (!kind) return;
    uint64_t ticket = atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed);
    Slot *slot = &slots[ticket % SLOTS];
    atomic_store_explicit(&slot->signature, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    put(slot, 0, kind->number);
    int count = tf.inputs(context);
    void *status = tf.new_status();
    for (int index = 0; index < count && index < WIDTH - 1; index++) {
        void *tensor = NULL;
        tf.input(context, index, &tensor, status);
        if (!tensor) continue;
        put(slot, index + 1, *(const double *)tf.data(tensor));
        tf.delete_tensor(tensor);
    }
    tf.delete_status(status);
    atomic_store_explicit(&slot->signature, ticket + 1, memory_order_release);
}

/* Registers op and kernel in the library of this handle, for rows of `width` numbers. NULL, or what stands in the way:
 * what is missing there, or "WIDTH" where this library's rows are others. Call it once. */
const char *tfscale_register(void *library, int width) {
    if (width != WIDTH) return "WIDTH";
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *found = dlsym(library, functions[index].name);
        if (!found) return functions[index].name;
        memcpy(functions[index].where, &found, sizeof found);
    }
    void *status = tf.new_status();
    void *op = tf.new_op(OP);
    tf.add_input(op, "values: N * double");
    tf.add_attribute(op, "N: int >= 0");
    tf.add_attribute(op, "kind: int");
    tf.set_stateful(op, true);
    tf.register_op(op, status);
    bool well = tf.code(status) == 0;
    if (well) {
        tf.register_kernel(OP, tf.new_kernel(OP, "CPU", create, compute, free), status);
        well = tf.code(status) == 0;
    }
    tf.delete_status(status);
    return well ? NULL : OP;
}

/* Moves at most `most` rows of WIDTH numbers to `rows`, oldest first, and says how many; adds to `lost` those that were
 * written over before they were read. One caller at a time. */
uint64_t tfscale_take(double *rows, uint64_t most, uint64_t *lost) {
    uint64_t taken = 0, end = atomic_load_explicit(&drawn, memory_order_acquire);
    if (end - due > SLOTS) {
        *lost += end - SLOTS - due;
        due = end - SLOTS;
    }
    for (; due < end && taken < most; due++) {
        Slot *slot = &slots[due % SLOTS];
        uint64_t signature = atomic_load_explicit(&slot->signature, memory_order_acquire);
        if (signature <= due) break;
        for (int place = 0; place < WIDTH; place++)
            rows[WIDTH * taken + place] = atomic_load_explicit(&slot->numbers[place], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (signature == due + 1 && atomic_load_explicit(&slot->signature, memory_order_relaxed) == signature)
            taken++;
        else
            ++*lost;
    }
    return taken;
}
