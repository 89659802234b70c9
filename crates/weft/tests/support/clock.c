/* Preloaded into a server under test: the clock on the wall is WEFT_CLOCK_SHIFT_S seconds off. Time
 * that only passes is as ever.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const char *shift = getenv("WEFT_CLOCK_SHIFT_S");
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += atol(shift);
    return failed;
}
