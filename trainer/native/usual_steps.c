/* Assembles usual training steps from rows of stamps, as `StepAssembler` does (steps/assembler.py), at a hundredth of
 * the CPU. A usual step is one batch, one reduction of gradients and one run, in this order, and beside them at most
 * reductions that no update waits for. It keeps nothing from call to call. tfscale/trainer/probe/steps/usual_steps.py
 * is its only user.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Numbers in a row (ring.c), and spans that it may have. */
#define WIDTH 8
#define MOST_SPANS 7
/* Reductions beside the updates of one step; a step with more is left to the assembler. */
#define MOST_WAITS 64
/* Places by which a span may precede those that were written before it, on the average of all spans. */
#define MOST_MOVES 16

/* Each list is an enumeration here, and text that Python compares with its own names when it loads the library. */
#define PARTS(X) X(INPUT) X(REDUCE) X(RUN) X(OVERLAPPING) X(OTHER)
#define FIELDS(X) X(PART) X(BEGIN) X(END) X(AMOUNT) X(FIXED) X(GROUP)
#define TAIL(X) X(EXIT) X(UPDATED) X(REDUCED)
#define COLUMNS(X) X(END) X(UPDATE) X(HOST) X(INPUT) X(COMPUTE) X(REDUCE) X(BYTES) X(EXAMPLES)
#define AS_PART(name) PART_##name,
#define AS_FIELD(name) FIELD_##name,
#define AS_TAIL(name) TAIL_##name,
#define AS_COLUMN(name) COLUMN_##name,
#define AS_TEXT(name) #name " "

/* Part of a step that a span is. */
enum { PARTS(AS_PART) };
/* What a kind of row says of one of its spans: the places of its numbers in the row, 0 for none; the amount that is
 * fixed; and a number that is the same in all steps of a program. */
enum { FIELDS(AS_FIELD) FIELDS_COUNT };
/* Unix seconds at which the gradients of the newest step were reduced, its variables updated, and the newest reduction
 * ended. */
enum { TAIL(AS_TAIL) };
/* Columns of steps: Unix seconds of the end, seconds of the phases, amounts. */
enum { COLUMNS(AS_COLUMN) };

const char *tfscale_usual_steps_layout(void) {
    return PARTS(AS_TEXT) "/ " FIELDS(AS_TEXT) "/ " TAIL(AS_TEXT) "/ " COLUMNS(AS_TEXT);
}

typedef int64_t Layout[MOST_SPANS][FIELDS_COUNT];

typedef struct {
    int64_t part, group;
    double begin, end, amount;
} Span;

/* A step of which not all spans have come. */
typedef struct {
    bool has_batch, has_gradients;
    Span batch, gradients;
    double reduced; /* The end of the newest reduction. */
    int waits_count;
    Span waits[MOST_WAITS];
} Step;

/* Reduces the span to what is left of it after the reduction before: collectives run one after the other, however
 * early their tensors were ready. Returns false if it did not end after that one. */
static bool serialise(Step *step, Span *reduction) {
    if (!(reduction->end > step->reduced)) return false;
    reduction->begin = fmax(reduction->begin, step->reduced);
    step->reduced = reduction->end;
    return true;
}

/* Adds a span that does not end a step. Returns false if no usual step has such a span here. */
static bool add_span(Step *step, Span span, double updated) {
    switch (span.part) {
    case PART_INPUT:
        if (step->has_batch) return false;
        step->has_batch = true;
        step->batch = span;
        return true;
    case PART_REDUCE:
        if (step->has_gradients || !serialise(step, &span)) return false;
        step->has_gradients = true;
        step->gradients = span;
        return true;
    case PART_OVERLAPPING:
        if (step->waits_count == MOST_WAITS || !serialise(step, &span)) return false;
        /* It goes on beside the updates; only what is left of it after them is waiting. */
        span.begin = fmax(span.begin, fmin(updated, span.end));
        step->waits[step->waits_count++] = span;
        return true;
    default:
        return false;
    }
}

/* Returns the seconds of a leg of the step that waits cover. */
static double covered(const Step *step, double begin, double end) {
    double sum = 0.0;
    for (const Span *wait = step->waits; wait < step->waits + step->waits_count; wait++)
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
    column[COLUMN_BYTES * stride] = rint(step->gradients.amount);
    column[COLUMN_EXAMPLES * stride] = step->batch.amount;
    tail[TAIL_EXIT] = step->gradients.end;
    tail[TAIL_UPDATED] = updated;
    tail[TAIL_REDUCED] = step->reduced;
    return true;
}

/* Returns a span of a row. */
static Span span_of(const double *row, const int64_t *fields) {
    double end = row[fields[FIELD_END]];
    return (Span){
        .part = fields[FIELD_PART],
        .group = fields[FIELD_GROUP],
        /* Nothing waits for the stamp at which a batch is asked for: it may be taken when the batch is there already. */
        .begin = fmin(row[fields[FIELD_BEGIN]], end),
        .end = end,
        .amount = (double)fields[FIELD_FIXED] + (fields[FIELD_AMOUNT] ? row[fields[FIELD_AMOUNT]] : 0.0),
    };
}

/* Writes the spans of the rows in the order of their ends, but for spans of the first `partly_taken` rows that ended
 * by `until`. Returns how many, or -1 if a row is of no kind, or the rows are out of order. */
static int64_t sorted_spans(const double *rows, int64_t count, int64_t partly_taken, double until, const Layout *layouts,
                            int64_t kinds, Span *spans) {
    int64_t number = 0, moves = 0;
    for (int64_t row = 0; row < count; row++) {
        const double *numbers = rows + WIDTH * row;
        if (!(numbers[0] >= 0.0 && numbers[0] < (double)kinds)) return -1;
        const Layout *layout = &layouts[(int64_t)numbers[0]];
        for (int index = 0; index < MOST_SPANS && (*layout)[index][FIELD_BEGIN]; index++) {
            Span span = span_of(numbers, (*layout)[index]);
            if (row < partly_taken && span.end <= until) continue;
            int64_t place = number++;
            for (; place && spans[place - 1].end > span.end; place--) spans[place] = spans[place - 1];
            spans[place] = span;
            moves += number - 1 - place;
        }
        if (moves > MOST_MOVES * (number + MOST_SPANS)) return -1;
    }
    return number;
}

/* Moves the rows that have a span after `until` to the front, and returns how many. */
static int64_t kept_rows(double *rows, int64_t count, double until, const Layout *layouts) {
    int64_t kept = 0;
    for (int64_t row = 0; row < count; row++) {
        const double *numbers = rows + WIDTH * row;
        const Layout *layout = &layouts[(int64_t)numbers[0]];
        bool is_kept = false;
        for (int index = 0; index < MOST_SPANS && (*layout)[index][FIELD_BEGIN]; index++)
            is_kept |= numbers[(*layout)[index][FIELD_END]] > until;
        if (is_kept) memmove(rows + WIDTH * kept++, numbers, WIDTH * sizeof *rows);
    }
    return kept;
}

/* Where the steps that were assembled end. */
typedef struct {
    int64_t steps;
    bool is_complete; /* No other span ended by the horizon, but of a step that has not ended. */
} Result;

static Result assemble(const Span *spans, int64_t number, double horizon, double idle, int64_t *groups, double *tail,
                       double *columns, int64_t stride) {
    int64_t steps = 0;
    Step step = {.reduced = tail[TAIL_REDUCED]};
    for (const Span *span = spans; span < spans + number && span->end <= horizon; span++) {
        if (span->part != PART_RUN) {
            if (!add_span(&step, *span, tail[TAIL_UPDATED])) return (Result){steps, false};
            continue;
        }
        bool is_other = steps && (groups[0] != span->group || groups[1] != step.gradients.group);
        /* All spans up to the end of a step are taken, which no span of the next one may be. */
        bool is_tied = span + 1 < spans + number && span[1].end == span->end;
        if (is_other || is_tied || !end_step(&step, span->end, idle, tail, columns + steps, stride))
            return (Result){steps, false};
        groups[0] = span->group;
        groups[1] = step.gradients.group;
        steps++;
        step = (Step){.reduced = tail[TAIL_REDUCED]};
    }
    return (Result){steps, true};
}

/* Assembles the usual steps that ended by `horizon`, up to the first span that is of none, and takes their rows away.
 *
 * `rows` are (*count, WIDTH) in the order in which they were written; spans of the first `partly_taken` that ended by
 * `until` were taken before. `layouts` has each kind of row. `tail` is where the steps so far end, and then where these do:
 * all spans up to its update were taken, and `*count` rows are left that have others. `idle` seconds on the host may
 * be a pause. `columns` are (COLUMNS, stride). `groups` are those of the steps' run and gradients.
 *
 * Returns the number of steps; if something else than usual steps ended by `horizon`, -1 minus this number. */
int64_t tfscale_usual_steps(double *rows, int64_t *count, int64_t partly_taken, double until, const Layout *layouts,
                            int64_t kinds, double horizon, double idle, int64_t *groups, double *tail, double *columns,
                            int64_t stride) {
    Span *spans = malloc((size_t)(*count * MOST_SPANS) * sizeof *spans + 1);
    int64_t number = spans ? sorted_spans(rows, *count, partly_taken, until, layouts, kinds, spans) : -1;
    Result result = {0, false};
    if (number >= 0) result = assemble(spans, number, horizon, idle, groups, tail, columns, stride);
    free(spans);
    if (result.steps) *count = kept_rows(rows, *count, tail[TAIL_UPDATED], layouts);
    return result.is_complete ? result.steps : -1 - result.steps;
}
