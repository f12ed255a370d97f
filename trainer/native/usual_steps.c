/* Assembles usual training steps from their spans, as `StepAssembler` does (steps/assembler.py), but some hundred
 * times faster. A usual step is one batch, one reduction of gradients and one run, in this order, and beside them at
 * most reductions that no update waits for. It keeps nothing from call to call.
 * tfscale/trainer/probe/steps/usual_steps.py is its only user.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Reductions beside the updates of one step; a step with more is left to the assembler. */
#define MOST_WAITS 64

/* Each list is an enumeration here, and text that Python compares with its own names when it loads the library. */
#define PARTS(X) X(INPUT) X(REDUCE) X(RUN) X(OVERLAPPING)
#define TAIL(X) X(EXIT) X(UPDATED) X(REDUCED)
#define COLUMNS(X) X(END) X(UPDATE) X(HOST) X(INPUT) X(COMPUTE) X(REDUCE)
#define AS_PART(name) PART_##name,
#define AS_TAIL(name) TAIL_##name,
#define AS_COLUMN(name) COLUMN_##name,
#define AS_TEXT(name) #name " "

/* Part of a step that a span is; all other numbers are none. */
enum { PARTS(AS_PART) };
/* Unix seconds at which the gradients of the newest step were reduced, its variables updated, and the newest reduction
 * ended. */
enum { TAIL(AS_TAIL) };
/* Columns of steps: Unix seconds of the end, seconds of the phases. */
enum { COLUMNS(AS_COLUMN) };

const char *tfscale_usual_steps_layout(void) { return PARTS(AS_TEXT) "/ " TAIL(AS_TEXT) "/ " COLUMNS(AS_TEXT); }

typedef struct {
    double begin, end;
} Interval;

/* A step of which not all spans have come. */
typedef struct {
    bool has_batch, has_gradients;
    Interval batch, gradients;
    double reduced; /* The end of the newest reduction. */
    int waits_count;
    Interval waits[MOST_WAITS];
} Step;

/* Collectives run one after the other, however early their tensors were ready. */
static Interval serialised(Step *step, Interval reduction) {
    reduction.begin = fmax(reduction.begin, fmin(step->reduced, reduction.end));
    step->reduced = fmax(step->reduced, reduction.end);
    return reduction;
}

static bool add_wait(Step *step, Interval reduction, double updated) {
    if (step->waits_count == MOST_WAITS) return false;
    reduction = serialised(step, reduction);
    /* It goes on beside the updates; only what is left of it after them is waiting. */
    reduction.begin = fmax(reduction.begin, fmin(updated, reduction.end));
    step->waits[step->waits_count++] = reduction;
    return true;
}

/* Seconds of a leg of the step that waits cover. */
static double covered(const Step *step, double begin, double end) {
    double sum = 0.0;
    for (const Interval *wait = step->waits; wait < step->waits + step->waits_count; wait++)
        if (wait->end < step->gradients.end) sum += fmax(0.0, fmin(end, wait->end) - fmax(begin, wait->begin));
    return sum;
}

/* Writes the columns of a step, `stride` numbers apart, and moves the tail to its end. Returns false, and changes
 * nothing, if the step is not usual. */
static bool end_step(const Step *step, double updated, double idle, double *tail, double *column, int64_t stride) {
    if (!step->has_batch || !step->has_gradients) return false;
    double edges[] = {tail[TAIL_EXIT], tail[TAIL_UPDATED], step->batch.begin, step->batch.end, step->gradients.begin};
    double phases[4], waited = 0.0;
    for (int leg = 0; leg < 4; leg++) {
        double lasted = edges[leg + 1] - edges[leg], part = covered(step, edges[leg], edges[leg + 1]);
        if (!(lasted >= 0.0)) return false;
        phases[leg] = fmax(0.0, lasted - part);
        waited += part;
    }
    if (phases[1] > idle) return false;
    column[COLUMN_END * stride] = step->gradients.end;
    for (int leg = 0; leg < 4; leg++) column[(COLUMN_UPDATE + leg) * stride] = phases[leg];
    column[COLUMN_REDUCE * stride] = step->gradients.end - step->gradients.begin + waited;
    tail[TAIL_EXIT] = step->gradients.end;
    tail[TAIL_UPDATED] = updated;
    tail[TAIL_REDUCED] = step->reduced;
    return true;
}

/* Takes a span that does not end a step. Returns false if no usual step has such a one here. */
static bool add_span(Step *step, int64_t part, Interval span, double updated) {
    if (part == PART_OVERLAPPING) return add_wait(step, span, updated);
    if (part == PART_INPUT && !step->has_batch) {
        step->has_batch = true;
        step->batch = span;
        return true;
    }
    if (part == PART_REDUCE && !step->has_gradients) {
        step->has_gradients = true;
        step->gradients = serialised(step, span);
        return true;
    }
    return false;
}

/* Assembles the usual steps at the start of `count` spans, which are in the order of their ends, and returns how many
 * spans these steps have, the last one's run among them. `part`, `begin` and `end` are the spans' columns; `tail` is
 * where the steps so far end, and then where these do; `idle` seconds on the host may be a pause. The steps' columns,
 * each of `count` numbers, are written to `columns`. */
int64_t tfscale_usual_steps(const int64_t *part, const double *begin, const double *end, int64_t count, double idle,
                            double *tail, double *columns) {
    int64_t taken = 0, steps = 0;
    Step step = {.reduced = tail[TAIL_REDUCED]};
    for (int64_t index = 0; index < count; index++) {
        if (part[index] != PART_RUN) {
            Interval span = {begin[index], end[index]};
            if (!add_span(&step, part[index], span, tail[TAIL_UPDATED])) break;
            continue;
        }
        if (!end_step(&step, end[index], idle, tail, columns + steps, count)) break;
        steps++;
        taken = index + 1;
        step = (Step){.reduced = tail[TAIL_REDUCED]};
    }
    return taken;
}
