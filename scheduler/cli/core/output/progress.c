/* progress.c - drawing the bar.
 *
 * The rate is that of the last half minute, from a ring of samples taken twice a second at most: a
 * batch whose sizes change half-way gets an honest estimate soon, and one slow picture does not
 * make the time left jump.
 */
#include "scheduler/cli/core/output/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WINDOW_S 30.0      /* the rate forgets what is older */
#define PLAIN_EVERY_S 30.0 /* a log gets a line at least this often */
#define PLAIN_LEAST_S 2.0  /* and not more often than this */
#define REDRAW_S 0.1

void kiln_bar_init(struct kiln_bar *bar, const struct kiln_cli *cli, const char *what)
{
    *bar = (struct kiln_bar){.cli = cli, .what = what, .said_tenths = -1};
    bar->said_s = kiln_now_s();
}

/* Finished a second over the last half minute; 0 while unknown. */
static double rate_of(const struct kiln_bar *bar, double now_s)
{
    if (bar->samples < 2)
        return 0;
    unsigned newest = bar->samples - 1, oldest = newest;
    while (oldest > 0 && newest - oldest + 1 < KILN_BAR_SAMPLES &&
           now_s - bar->sample[(oldest - 1) % KILN_BAR_SAMPLES].at_s <= WINDOW_S)
        oldest--;
    double seconds = now_s - bar->sample[oldest % KILN_BAR_SAMPLES].at_s;
    uint64_t made = bar->sample[newest % KILN_BAR_SAMPLES].finished -
                    bar->sample[oldest % KILN_BAR_SAMPLES].finished;
    return seconds > 0 ? (double)made / seconds : 0;
}

/* "12.3/s, 2 min 05 s left, 3 failed, 1 cancelled" */
static void describe(const struct kiln_bar *bar, uint64_t total, uint64_t finished, uint64_t failed,
                     uint64_t cancelled, double now_s, char *out, size_t size)
{
    double rate = rate_of(bar, now_s);
    char left[32];
    size_t used = 0;
    out[0] = '\0';
    if (rate > 0 && rate < 0.5)
        used += (size_t)snprintf(out, size, "  %.1f/min", rate * 60);
    else if (rate > 0)
        used += (size_t)snprintf(out, size, "  %.1f/s", rate);
    if (rate > 0 && total > finished)
        used += (size_t)snprintf(
            out + used, size - used, "  %s left",
            kiln_seconds_text((double)(total - finished) / rate, left, sizeof left));
    if (failed)
        used +=
            (size_t)snprintf(out + used, size - used, "  %llu failed", (unsigned long long)failed);
    if (cancelled)
        snprintf(out + used, size - used, "  %llu cancelled", (unsigned long long)cancelled);
}

/* Leaves room for the texts first; a narrow terminal loses the bar, not the numbers. */
static void draw_terminal(struct kiln_bar *bar, uint64_t total, uint64_t finished, const char *rest)
{
    struct winsize window;
    int columns =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    char counts[80];
    int taken = total ? snprintf(counts, sizeof counts, " %llu/%llu", (unsigned long long)finished,
                                 (unsigned long long)total)
                      : snprintf(counts, sizeof counts, " %llu", (unsigned long long)finished);
    int width = columns - (int)strlen(bar->what) - taken - (int)strlen(rest) - 4;
    width = width > 40 ? 40 : width;
    fprintf(stderr, "\r\033[K%s ", bar->what);
    if (width >= 8 && total > 0) {
        int full = (int)((double)width * (double)finished / (double)total);
        fputs(bar->cli->color_err ? "[\033[32m" : "[", stderr);
        for (int i = 0; i < width; i++)
            fputc(i < full ? '#' : i == full ? '>' : '.', stderr);
        fputs(bar->cli->color_err ? "\033[0m]" : "]", stderr);
    }
    fprintf(stderr, "%s%s", counts, rest);
    fflush(stderr);
    bar->open = true;
}

/* For logs: few lines, each complete. */
static void say_plain(struct kiln_bar *bar, uint64_t total, uint64_t finished, const char *rest,
                      double now_s)
{
    int tenths = total ? (int)(10 * finished / total) : 0;
    double since_s = now_s - bar->said_s;
    if (total == 0 || since_s < PLAIN_LEAST_S ||
        (tenths == bar->said_tenths && since_s < PLAIN_EVERY_S))
        return;
    bar->said_tenths = tenths;
    bar->said_s = now_s;
    kiln_say(bar->cli, "%s %llu of %llu%s", bar->what, (unsigned long long)finished,
             (unsigned long long)total, rest);
}

void kiln_bar_draw(struct kiln_bar *bar, uint64_t total, uint64_t finished, uint64_t failed,
                   uint64_t cancelled, double now_s)
{
    unsigned last =
        (bar->samples - 1) % KILN_BAR_SAMPLES; /* closer ones do not fit into the ring */
    if (!bar->samples || now_s - bar->sample[last].at_s >= WINDOW_S / (KILN_BAR_SAMPLES - 1)) {
        bar->sample[bar->samples % KILN_BAR_SAMPLES].at_s = now_s;
        bar->sample[bar->samples++ % KILN_BAR_SAMPLES].finished = finished;
    }
    if (bar->cli->quiet)
        return;
    bool complete = total > 0 && finished == total;
    if (bar->cli->progress && !complete && now_s - bar->drawn_s < REDRAW_S)
        return;
    char rest[128];
    describe(bar, total, finished, failed, cancelled, now_s, rest, sizeof rest);
    bar->drawn_s = now_s;
    if (bar->cli->progress)
        draw_terminal(bar, total, finished, rest);
    else
        say_plain(bar, total, finished, rest, now_s);
}

void kiln_bar_end(struct kiln_bar *bar)
{
    if (bar->open)
        fputc('\n', stderr);
    bar->open = false;
}

uint64_t kiln_counts_total(const struct kiln_counts *counts)
{
    uint64_t total = 0;
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        total += counts->at[state];
    return total;
}

json_t *kiln_counts_json(const struct kiln_counts *counts)
{
    json_t *object = json_object();
    for (int state = 0; state < KILN_JOB_STATE_COUNT; state++)
        json_object_set_new(object, kiln_job_state_name((enum kiln_job_state)state),
                            json_integer((json_int_t)counts->at[state]));
    return object;
}
