/* watch.c - `kiln watch`: on a terminal the full screen of screen.c, elsewhere a line a
 * change, with --json a line a look. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/core/output/progress.h"
#include "scheduler/cli/core/verbs.h"
#include "scheduler/cli/fleet/batch_wait.h"
#include "scheduler/cli/fleet/snapshot.h"
#include "scheduler/cli/fleet/watch/view.h"
#include "schemas/clock.h"

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

/* What was shown last. */
struct shown {
    struct kiln_counts counts;
    struct kiln_troubles troubles;
};

static void show_troubles(const char *now, const struct kiln_troubles *troubles, struct shown *last)
{
    const struct kiln_trouble *fresh[KILN_TROUBLES_MAX];
    bool had = last->troubles.count > 0;
    size_t count = kiln_troubles_new(&last->troubles, troubles, fresh);
    for (size_t i = 0; i < count; i++)
        printf("%s  ! %s; %s\n", now, fresh[i]->text, fresh[i]->next);
    if (had && troubles->count == 0)
        printf("%s  nothing is in the way any more\n", now);
}

/* Shows one look, as text only what differs from *last; *ret_over: the batch that is watched has
 * ended. */
static int watch_once(struct kiln_cli *cli, const char *batch, struct shown *last, bool *ret_over,
                      int *ret_status, struct kiln_error *err)
{
    char now[64];
    struct kiln_snapshot look;
    char text[KILN_COUNTS_TEXT_MAX];
    int rc = kiln_snapshot_take(cli, batch, &look, err);
    if (rc)
        return rc;
    const struct kiln_counts *counts = kiln_snapshot_counts(&look);
    if (cli->json) {
        (void)kiln_print_json(cli, kiln_snapshot_json(&look));
    } else {
        kiln_time_text(kiln_wall_ms(), now, sizeof now);
        if (memcmp(counts, &last->counts, sizeof *counts) != 0) {
            last->counts = *counts;
            printf("%s  %s\n", now, kiln_counts_text(counts, text, sizeof text));
        }
        show_troubles(now, &look.troubles, last);
    }
    fflush(stdout);
    *ret_over = kiln_snapshot_over(&look);
    *ret_status = *ret_over ? kiln_batch_status(&look.batch) : 0;
    kiln_snapshot_release(&look);
    return 0;
}

static int watch_lines(struct kiln_cli *cli, const char *batch, long interval_s)
{
    struct kiln_error err;
    struct shown last = {0};
    bool over = false;
    int status = 0;
    memset(&last.counts, 0xff, sizeof last.counts); /* unlike any */
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    while (!interrupted && !over && kiln_stdout_ok()) {
        if (watch_once(cli, batch, &last, &over, &status, &err))
            return kiln_report(cli, &err);
        if (!over)
            kiln_sleep_s((double)interval_s);
    }
    return status;
}

/* What stays on the terminal when the screen has gone. */
static int watch_screen(struct kiln_cli *cli, const char *batch, long interval_s)
{
    struct kiln_error err;
    struct kiln_progress progress;
    char text[KILN_COUNTS_TEXT_MAX];
    bool over = false;
    int rc = kiln_watch_screen(cli, batch, interval_s, &over, &progress, &err);
    if (rc == KILN_UNSUPPORTED) {
        kiln_say(cli, "%s: one line for each change instead", err.text);
        return watch_lines(cli, batch, interval_s);
    }
    if (rc)
        return kiln_report(cli, &err);
    if (!over)
        return 0;
    printf("batch %s has ended: %s\n", batch, kiln_counts_text(&progress.jobs, text, sizeof text));
    return kiln_batch_status(&progress);
}

int kiln_verb_watch(struct kiln_cli *cli, const struct kiln_args *args)
{
    long interval;
    int status = kiln_arg_int(cli, args, "interval", 1, 3600, 1, &interval);
    if (status)
        return status;
    const char *batch = args->rest_count ? args->rest[0] : NULL;
    struct kiln_error err;
    /* A batch that there is not must not leave an empty screen that waits for it. */
    if (batch && kiln_wait_taken_in(cli, batch, &err))
        return kiln_report(cli, &err);
    if (cli->tty_out && !cli->json)
        return watch_screen(cli, batch, interval);
    if (!cli->json)
        kiln_say(cli,
                 "stdout is not a terminal: one line for each change instead of the full screen");
    return watch_lines(cli, batch, interval);
}
