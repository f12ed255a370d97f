/* Clock of a host that has been set: the real-time clock, and the seconds that the file $CLOCK holds as an int64.

   Loaded with LD_PRELOAD into programs on Linux, where no namespace has a real-time clock of its own. Waits up to a time
   of this clock are handed to the kernel as times of its own: else a wait of a second would take an hour more. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) ahead = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

int timespec_get(struct timespec *now, int base) {
    return clock_gettime(base == TIME_UTC ? CLOCK_REALTIME : CLOCK_MONOTONIC, now) ? 0 : base;
}

time_t time(time_t *kept) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (kept) *kept = exact.tv_sec;
    return exact.tv_sec;
}

/* Returns this time of the clock that was set as one of the kernel's, in `real`; NULL for NULL. */
static const struct timespec *real_time(const struct timespec *until, struct timespec *real) {
    if (!until || !ahead) return until;
    *real = *until;
    real->tv_sec -= *ahead;
    return real;
}

long syscall(long number, ...) {
    static long (*next)(long, ...);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    va_list given;
    va_start(given, number);
    long words[6];
    for (int index = 0; index < 6; index++) words[index] = va_arg(given, long);
    va_end(given);
    struct timespec real;
    if (number == SYS_futex && (words[1] & ~FUTEX_PRIVATE_FLAG) == (FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME))
        words[3] = (long)real_time((const struct timespec *)words[3], &real);
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    struct timespec real;
    return next(condition, mutex, real_time(until, &real));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*next)(sem_t *, const struct timespec *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec real;
    return next(semaphore, real_time(until, &real));
}
