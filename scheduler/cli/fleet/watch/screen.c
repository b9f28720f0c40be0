/* screen.c - the full screen of `kiln watch`: a thread that looks, a thread that paints.
 *
 * A look may take as long as a server's time limit, and keys must be answered at once: so looks are
 * taken by a thread of their own, which leaves the newest one (or the reason why there is none) in
 * a box.  The painter takes it out ten times a second at most, lays out the lines and reads a key.
 * ncurses sends only what has changed, which is what makes it bearable over a slow ssh.
 */
#include "scheduler/cli/fleet/watch/view.h"

#include <locale.h>
#include <ncurses.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "schemas/clock.h"
#include "storage/ledger/ledger.h"
#include "storage/ledger/read/ops.h"

#define KEY_MS 100
#define CAUSES_EVERY_S 5.0
#define CAUSES_SINCE_MS (3600 * 1000LL)
#define END_S 1.0 /* for a look that is under way when the screen is left */
#define INTERVAL_MAX 60

/* What the looking thread leaves for the painter. */
struct box {
    struct kiln_cli *cli;
    const char *batch;
    pthread_mutex_t mutex;
    pthread_cond_t changed;    /* stop, interval */
    struct kiln_snapshot look; /* if fresh */
    bool fresh, stop, ended;
    char trouble[KILN_ERROR_TEXT_MAX];
    long interval_s;
    struct kiln_cause_shown causes[KILN_CAUSES_MAX];
    size_t cause_count;
};

struct screen {
    struct box *box;
    struct kiln_view view;
    struct kiln_snapshot look; /* the one that is shown */
    bool has_look;
    struct kiln_rates rates;
    SCREEN *terminal;
    char trouble[KILN_ERROR_TEXT_MAX];
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_no)
{
    interrupted = signal_no;
}

/* --- looking ---------------------------------------------------------------------------------- */

struct cause_list {
    struct kiln_cause_shown at[KILN_CAUSES_MAX];
    size_t count;
};

static int keep_cause(void *arg, const struct kiln_cause_row *row, struct kiln_error *err)
{
    struct cause_list *list = arg;
    (void)err;
    if (list->count == KILN_CAUSES_MAX)
        return 0;
    struct kiln_cause_shown *cause = &list->at[list->count++];
    *cause =
        (struct kiln_cause_shown){.jobs = row->jobs, .example = row->example, .code = row->code};
    snprintf(cause->cause, sizeof cause->cause, "%.*s", (int)sizeof cause->cause - 1, row->cause);
    return 0;
}

static void leave(struct box *box, int rc, struct kiln_snapshot *look,
                  const struct cause_list *causes, const struct kiln_error *err)
{
    pthread_mutex_lock(&box->mutex);
    snprintf(box->trouble, sizeof box->trouble, "%s", rc ? err->text : "");
    if (rc == 0) {
        if (box->fresh)
            kiln_snapshot_release(&box->look);
        box->look = *look;
        box->fresh = true;
        memcpy(box->causes, causes->at, causes->count * sizeof causes->at[0]);
        box->cause_count = causes->count;
    }
    pthread_mutex_unlock(&box->mutex);
}

static void *keep_looking(void *arg)
{
    struct box *box = arg;
    struct cause_list *causes = calloc(1, sizeof *causes);
    double causes_due_s = 0;
    for (bool stop = causes == NULL; !stop;) {
        struct kiln_snapshot look;
        struct kiln_error err;
        int rc = kiln_snapshot_take(box->cli, box->batch, &look, &err);
        if (rc == 0 && kiln_now_s() >= causes_due_s) {
            struct kiln_ledger *ledger = NULL;
            causes->count = 0;
            rc = kiln_open_reader(box->cli, &ledger, &err);
            if (rc == 0)
                rc = kiln_ledger_causes(ledger, kiln_pool(box->cli), box->batch,
                                        kiln_wall_ms() - CAUSES_SINCE_MS, keep_cause, causes, &err);
            kiln_ledger_close(ledger);
            causes_due_s = kiln_now_s() + CAUSES_EVERY_S;
            if (rc)
                kiln_snapshot_release(&look);
        }
        leave(box, rc, &look, causes, &err);
        struct timespec until; /* an interval later, or when there is something to do */
        clock_gettime(CLOCK_REALTIME, &until);
        pthread_mutex_lock(&box->mutex);
        until.tv_sec += box->interval_s;
        if (!box->stop)
            pthread_cond_timedwait(&box->changed, &box->mutex, &until);
        stop = box->stop;
        pthread_mutex_unlock(&box->mutex);
    }
    free(causes);
    pthread_mutex_lock(&box->mutex);
    box->ended = true;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->mutex);
    return NULL;
}

/* --- painting --------------------------------------------------------------------------------- */

/* Writes as many characters as fit into the columns; what the locale cannot show becomes '?'. */
static void paint_text(const char *text, int columns)
{
    mbstate_t state = {0};
    for (const char *at = text; *at && columns > 0;) {
        wchar_t c;
        size_t len = mbrtowc(&c, at, strlen(at), &state);
        bool bad = len == (size_t)-1 || len == (size_t)-2 || len == 0;
        if (bad)
            memset(&state, 0, sizeof state);
        int wide = bad ? 1 : wcwidth(c);
        at += bad ? 1 : len;
        if (wide < 0) {
            c = L'?';
            wide = 1;
        }
        if (wide > columns)
            break;
        if (bad)
            addch('?');
        else
            addnwstr(&c, 1);
        columns -= wide;
    }
}

static void paint(struct screen *screen)
{
    static const attr_t plain[] = {
        /* without colours bold and reverse say the same */
        [KILN_INK_PLAIN] = A_NORMAL, [KILN_INK_TITLE] = A_REVERSE, [KILN_INK_HEAD] = A_BOLD,
        [KILN_INK_GOOD] = A_NORMAL,  [KILN_INK_WARN] = A_BOLD,     [KILN_INK_BAD] = A_BOLD};
    bool colors = screen->box->cli->color_out && has_colors();
    int height = LINES, width = COLS;
    struct kiln_line *lines = calloc((size_t)height, sizeof *lines);
    if (!lines)
        return;
    screen->view.now_s = kiln_now_s();
    screen->view.now_ms = kiln_wall_ms();
    kiln_view_lay(&screen->view, width, height, lines);
    erase();
    for (int row = 0; row < height; row++) {
        enum kiln_ink ink = lines[row].ink;
        attr_t attribute =
            plain[ink] | (colors && ink >= KILN_INK_GOOD ? (attr_t)COLOR_PAIR(ink) : 0);
        attrset(attribute);
        move(row, 0);
        /* The last cell of the last row would scroll a terminal that is asked plainly. */
        int columns = row == height - 1 ? width - 1 : width;
        if (attribute & A_REVERSE)
            hline(' ' | attribute, columns);
        paint_text(lines[row].text, columns);
    }
    attrset(A_NORMAL);
    refresh();
    free(lines);
}

/* --- the newest look -------------------------------------------------------------------------- */

static void note_rates(struct screen *screen)
{
    const struct kiln_snapshot *look = &screen->look;
    double now_s = kiln_now_s();
    char name[96];
    kiln_rate_note(&screen->rates, KILN_RATE_ENDED, kiln_snapshot_counts(look)->at[KILN_JOB_DONE],
                   now_s);
    for (size_t i = 0; i < look->roster.count; i++) {
        if (!look->roster.at[i].live)
            continue;
        kiln_view_rate_name(&look->roster.at[i], name, sizeof name);
        kiln_rate_note(&screen->rates, name, look->roster.at[i].beat.done, now_s);
    }
}

/* Takes what the looking thread has left; true if there is something new to paint. */
static bool take(struct screen *screen)
{
    struct box *box = screen->box;
    pthread_mutex_lock(&box->mutex);
    bool fresh = box->fresh, told = strcmp(screen->trouble, box->trouble) != 0;
    snprintf(screen->trouble, sizeof screen->trouble, "%s", box->trouble);
    if (fresh) {
        if (screen->has_look)
            kiln_snapshot_release(&screen->look);
        screen->look = box->look;
        screen->has_look = true;
        box->fresh = false;
        memcpy(screen->view.causes, box->causes, sizeof box->causes);
        screen->view.cause_count = box->cause_count;
    }
    pthread_mutex_unlock(&box->mutex);
    if (fresh) {
        screen->view.look = &screen->look;
        screen->view.look_s = kiln_now_s();
        note_rates(screen);
    }
    return fresh || told;
}

/* --- keys ------------------------------------------------------------------------------------- */

static void set_interval(struct screen *screen, long by)
{
    struct box *box = screen->box;
    pthread_mutex_lock(&box->mutex);
    long wanted = box->interval_s + by;
    box->interval_s = wanted < 1 ? 1 : wanted > INTERVAL_MAX ? INTERVAL_MAX : wanted;
    screen->view.interval_s = box->interval_s;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->mutex);
}

static void scroll_by(struct kiln_view *view, long rows)
{
    size_t *from = &view->from[view->section];
    *from = rows < 0 && (size_t)-rows > *from ? 0 : *from + (size_t)rows;
}

/* False: the end. */
static bool obey(struct screen *screen, int key)
{
    struct kiln_view *view = &screen->view;
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case '\t':
        view->section = (enum kiln_section)((view->section + 1) % KILN_SECTIONS);
        return true;
    case KEY_UP:
    case 'k':
        scroll_by(view, -1);
        return true;
    case KEY_DOWN:
    case 'j':
        scroll_by(view, 1);
        return true;
    case KEY_PPAGE:
        scroll_by(view, -LINES / 2);
        return true;
    case KEY_NPAGE:
        scroll_by(view, LINES / 2);
        return true;
    case ' ':
        view->held = !view->held;
        return true;
    case '+':
        set_interval(screen, 1);
        return true;
    case '-':
        set_interval(screen, -1);
        return true;
    default: /* KEY_RESIZE among them: ncurses has taken the new size */
        return true;
    }
}

/* A key that is no key (the terminal has gone) must not make a loop that never rests. */
static void show(struct screen *screen)
{
    double painted_s = 0;
    bool go_on = true;
    while (go_on && !interrupted && !(screen->has_look && kiln_snapshot_over(&screen->look))) {
        bool changed = !screen->view.held && take(screen);
        if (changed || kiln_now_s() - painted_s >= 1) {
            paint(screen);
            painted_s = kiln_now_s();
        }
        double asked_s = kiln_now_s();
        int key = getch();
        if (key != ERR) {
            go_on = obey(screen, key);
            painted_s = 0;
        } else if (kiln_now_s() - asked_s < KEY_MS / 2e3) {
            napms(KEY_MS);
        }
    }
}

/* --- up and down ------------------------------------------------------------------------------ */

static int open_terminal(struct screen *screen, struct kiln_error *err)
{
    const char *kind = getenv("TERM");
    setlocale(LC_CTYPE, ""); /* LC_NUMERIC stays: numbers have points here */
    if (!isatty(STDIN_FILENO))
        return kiln_fail(err, KILN_UNSUPPORTED, "stdin is not a terminal, so no keys can be read");
    screen->terminal = newterm(NULL, stdout, stdin);
    if (!screen->terminal)
        return kiln_fail(err, KILN_UNSUPPORTED,
                         "unknown terminal \"%.40s\" (TERM), so no full screen", kind ? kind : "");
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(KEY_MS);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(KILN_INK_GOOD, COLOR_GREEN, -1);
        init_pair(KILN_INK_WARN, COLOR_YELLOW, -1);
        init_pair(KILN_INK_BAD, COLOR_RED, -1);
    }
    for (const int signals[] = {SIGINT, SIGTERM, SIGHUP}, *at = signals; at < signals + 3; at++)
        sigaction(*at, &(struct sigaction){.sa_handler = on_interrupt}, NULL);
    return 0;
}

/* Whether the looking thread has ended; one that waits for a server is not waited for long. */
static bool end_looking(struct box *box)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)END_S;
    pthread_mutex_lock(&box->mutex);
    box->stop = true;
    pthread_cond_broadcast(&box->changed);
    while (!box->ended && pthread_cond_timedwait(&box->changed, &box->mutex, &until) == 0)
        continue;
    bool ended = box->ended;
    pthread_mutex_unlock(&box->mutex);
    return ended;
}

int kiln_watch_screen(struct kiln_cli *cli, const char *batch, long interval_s, bool *ret_over,
                      struct kiln_progress *ret_batch, struct kiln_error *err)
{
    struct box box = {.cli = cli,
                      .batch = batch,
                      .interval_s = interval_s,
                      .mutex = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    struct screen *screen = calloc(1, sizeof *screen);
    pthread_t thread;
    if (!screen)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for the screen");
    screen->box = &box;
    screen->view = (struct kiln_view){.pool = kiln_pool(cli),
                                      .batch = batch,
                                      .rates = &screen->rates,
                                      .trouble = screen->trouble,
                                      .interval_s = interval_s};
    int rc = open_terminal(screen, err);
    if (rc == 0 && pthread_create(&thread, NULL, keep_looking, &box) != 0)
        rc = kiln_fail(err, KILN_NO_MEMORY, "the thread that takes snapshots cannot be started");
    if (rc == 0) {
        show(screen);
        *ret_over = screen->has_look && kiln_snapshot_over(&screen->look);
        if (*ret_over)
            *ret_batch = screen->look.batch;
    }
    if (screen->terminal) {
        endwin();
        delscreen(screen->terminal);
    }
    if (screen->has_look)
        kiln_snapshot_release(&screen->look);
    kiln_rate_release(&screen->rates);
    free(screen);
    if (rc)
        return rc;
    if (!end_looking(&box)) {
        fflush(stdout);
        _exit(0); /* it waits for a server; nothing else is left to do */
    }
    pthread_join(thread, NULL);
    if (box.fresh)
        kiln_snapshot_release(&box.look);
    return 0;
}
