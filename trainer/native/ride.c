/* Second after second of usual steps told to the agent from here, by the thread that came: one that wakes in Python once a
 * second, and calls C, takes four times the CPU of one that does not leave C, and the whole short way three times that
 * (docs/spikes/cost.md). It comes back where there is something that Python is to see, and has then done nothing about it.
 * tfscale/trainer/probe/express.py is its only user.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>

#include "steps.h"

/* As in tfscale/trainer/probe/native.py. */
typedef struct {
    double period, read;      /* Seconds: a read in each period, so long after its begin, */
    double settling;          /* of the steps that were over so long before. */
    double *offset;           /* Of the wall clock to the steady one, as found last; */
    double tolerance, narrow; /* more than it moves if nobody sets it, and than it takes to look. */
    int64_t longest;          /* Bytes that the agent takes as a whole, or not at all. */
} Round;

/* Bytes before a message: its length (tfscale/core/wire/framing.py). */
#define HEADER sizeof(uint32_t)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called;
static bool riding, dismounted;

/* The other threads of a process that was forked are not in it. */
static void stand(void) {
    riding = dismounted = false;
    pthread_mutex_init(&lock, NULL);
}

static void prepare(void) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    /* The wall clock may be set. */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&called, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_atfork(NULL, NULL, stand);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Whether the wall clock goes on as it did, which in doubt it does not: `ClockWatch` looks again then. */
static bool goes_on(Round *round) {
    double before = seconds(CLOCK_MONOTONIC), wall = seconds(CLOCK_REALTIME), after = seconds(CLOCK_MONOTONIC);
    double offset = wall - (before + after) / 2.0;
    if (after - before > round->narrow || !(fabs(offset - *round->offset) <= round->tolerance)) return false;
    *round->offset = offset;
    return true;
}

/* Until the next moment at which to read (`until_next` in tfscale/core/moments.py); whether it has come. */
static bool waited(const Round *round) {
    double left = round->period - fmod(seconds(CLOCK_REALTIME) - round->read, round->period);
    if (left < round->period / 2.0) left += round->period;
    double until = seconds(CLOCK_MONOTONIC) + left, whole = floor(until);
    struct timespec end = {(time_t)whole, (long)(1e9 * (until - whole))};
    while (!dismounted && !pthread_cond_timedwait(&called, &lock, &end))
        ;
    return !dismounted;
}

/* Whether the agent got it, as a whole. */
static bool sent(int agent, const Told *told) {
    uint32_t header = htonl((uint32_t)told->length);
    struct iovec parts[] = {{&header, sizeof header}, {(void *)told->message, (size_t)told->length}};
    struct msghdr whole = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t went = sendmsg(agent, &whole, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (went < 0) return false;
    if ((uint64_t)went == HEADER + told->length) return true;
    /* What comes after a part of a message would be taken for its rest. */
    shutdown(agent, SHUT_RDWR);
    return false;
}

static bool tells(Course *course, Round *round, const double *early, uint64_t number, int agent) {
    if (!goes_on(round)) return false;
    const Told *told = steps_told(course, early, number, seconds(CLOCK_REALTIME) - round->settling);
    if (!told || (int64_t)(HEADER + told->length) > round->longest) return false;
    const Course *after = &told->after;
    if (after->most_examples != course->most_examples || after->newest_bytes != course->newest_bytes) return false;
    if (!sent(agent, told)) return false;
    steps_go_on(course, told);
    return true;
}

/* From now on whoever calls tfscale_ride rides, until somebody calls tfscale_halt. */
void tfscale_mount(void) {
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    riding = true;
    dismounted = false;
    pthread_mutex_unlock(&lock);
}

/* When it returns, nobody tells anything more. Who rides comes back at the next moment, or `now`. */
void tfscale_halt(int now) {
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    riding = false;
    dismounted |= now;
    pthread_cond_signal(&called);
    pthread_mutex_unlock(&lock);
}

/* Tells steps to the socket of this agent, those of `early` first, moment after moment, as long as there is nothing else to
 * be told, and the same of each. 1 where a moment has come at which there is something else; 0 where it was called back. */
int tfscale_ride(Course *course, Round *round, const double *early, uint64_t number, int agent) {
    pthread_mutex_lock(&lock);
    bool has_come;
    while ((has_come = waited(round)) && riding && tells(course, round, early, number, agent)) number = 0;
    riding = false;
    pthread_mutex_unlock(&lock);
    return has_come;
}

/* Bytes of a round, for whoever lays it out elsewhere. */
uint64_t tfscale_round_size(void) { return sizeof(Round); }
