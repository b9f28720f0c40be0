/* gallery.c - the web gallery of a stack: one kiln-gallery on a free port of this machine.
 *
 * A stack renders without its gallery, so whatever goes wrong here is only reported.  It writes its
 * address to DIR/run/gallery.url once it listens.  While it starts again, the address before lies
 * in gallery.url.old: either file says that the stack has a gallery, which the guard tends.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/stack/stack.h"
#include "storage/daemon/outage.h"

#define NAME "gallery"
#define START_LIMIT_S 30
#define STOP_LIMIT_S 10
#define CALM_S 60 /* a crash after so long is the first one again */

pid_t kiln_stack_find_gallery(const struct kiln_stack *stack)
{
    return kiln_process_find(stack, NAME,
                             (const char *const[]){"kiln-gallery\n", stack->conf, NULL});
}

static char *url_file(const struct kiln_stack *stack, char out[PATH_MAX])
{
    return kiln_join(out, stack->dir, "run/gallery.url");
}

static char *old_url_file(const struct kiln_stack *stack, char out[PATH_MAX])
{
    return kiln_join(out, stack->dir, "run/gallery.url.old");
}

bool kiln_stack_gallery_url(const struct kiln_stack *stack, char out[KILN_GALLERY_URL_MAX])
{
    char path[PATH_MAX];
    FILE *file = kiln_stack_find_gallery(stack) ? fopen(url_file(stack, path), "re") : NULL;
    out[0] = '\0';
    bool read = file && fgets(out, KILN_GALLERY_URL_MAX, file) != NULL;
    if (file)
        fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return read;
}

/* Whether the settings are newer than the gallery that runs. */
static bool is_outdated(const struct kiln_stack *stack)
{
    char path[PATH_MAX];
    struct stat conf, url;
    return stat(stack->conf, &conf) == 0 && stat(url_file(stack, path), &url) == 0 &&
           (conf.st_mtim.tv_sec > url.st_mtim.tv_sec ||
            (conf.st_mtim.tv_sec == url.st_mtim.tv_sec &&
             conf.st_mtim.tv_nsec > url.st_mtim.tv_nsec));
}

static int has_url(void *arg, bool *ret_ready, struct kiln_error *err)
{
    char path[PATH_MAX];
    (void)err;
    *ret_ready = access(url_file(arg, path), R_OK) == 0;
    return 0;
}

int kiln_stack_gallery_stop(struct kiln_stack *stack, struct kiln_cli *cli)
{
    char path[PATH_MAX];
    pid_t pid = kiln_stack_find_gallery(stack);
    (void)unlink(url_file(stack, path));
    (void)unlink(old_url_file(stack, path));
    if (!pid) {
        kiln_process_forget(stack, NAME);
        return 0;
    }
    bool gentle = kiln_process_stop(stack, NAME, pid, SIGTERM, STOP_LIMIT_S);
    kiln_stack_say(cli, NAME, "stopped%s", gentle ? "" : " (killed: it did not end in time)");
    return 1;
}

/* cli NULL: does not wait until it listens; *ret_pid is then its number. */
static int start(struct kiln_stack *stack, struct kiln_cli *cli, pid_t *ret_pid,
                 struct kiln_error *err)
{
    char program[PATH_MAX], path[PATH_MAX], old[PATH_MAX];
    const char *argv[] = {kiln_join(program, stack->bin, "kiln-gallery"),
                          "gallery",
                          "serve",
                          "--config",
                          stack->conf,
                          "--url-file",
                          url_file(stack, path),
                          NULL};
    const struct kiln_spawn spawn = {.name = NAME, .argv = argv, .cwd = stack->dir};
    (void)rename(path, old_url_file(stack, old));
    if (!cli)
        return kiln_process_start(stack, &spawn, ret_pid, err);
    struct kiln_cli silent = *cli;
    silent.quiet = true; /* the address says it all */
    return kiln_process_up(stack, &silent, &spawn, 0, START_LIMIT_S, has_url, stack, err);
}

/* The address stays where a gallery was that nobody has stopped. */
static bool has_died(const struct kiln_stack *stack)
{
    char path[PATH_MAX];
    return (access(url_file(stack, path), F_OK) == 0 ||
            access(old_url_file(stack, path), F_OK) == 0) &&
           !kiln_stack_find_gallery(stack);
}

static void start_again(struct kiln_stack *stack, struct kiln_gallery_tended *tended, double now_s)
{
    struct kiln_error err;
    bool soon = tended->due_s > 0 && now_s < tended->due_s + CALM_S;
    tended->failures = soon ? tended->failures + 1 : 0;
    tended->due_s = now_s + kiln_backoff(tended->failures + 1, 1, 60);
    fprintf(stderr, "the gallery has ended; starting it again (see %s/log/" NAME ".log)\n",
            stack->dir);
    if (start(stack, NULL, &tended->pid, &err))
        fprintf(stderr, "%s\n", err.text);
}

/* `up` or `down` may be running: they hold the lock, so check again after taking it. */
void kiln_stack_gallery_tend(struct kiln_stack *stack, struct kiln_gallery_tended *tended)
{
    double now_s = kiln_now_s();
    if (tended->pid && !kiln_process_alive(tended->pid)) /* reaps it */
        tended->pid = 0;
    if (now_s < tended->due_s || !has_died(stack) || !kiln_stack_try_lock(stack))
        return;
    if (has_died(stack))
        start_again(stack, tended, now_s);
    kiln_stack_close(stack);
}

void kiln_stack_gallery(struct kiln_stack *stack, struct kiln_cli *cli, int choice)
{
    char url[KILN_GALLERY_URL_MAX];
    struct kiln_error err;
    if (kiln_stack_lock(stack, &err)) {
        kiln_warn(cli, "%s", err.text);
        return;
    }
    if (choice >= 0 && stack->gallery != (choice == 1)) {
        stack->gallery = choice == 1;
        if (kiln_stack_save(stack, &err))
            kiln_warn(cli, "%s", err.text);
    }
    bool runs = kiln_stack_find_gallery(stack) != 0;
    if (runs && (!stack->gallery || is_outdated(stack))) {
        struct kiln_cli silent = *cli;
        silent.quiet = stack->gallery;
        (void)kiln_stack_gallery_stop(stack, &silent);
        runs = false;
    }
    if (stack->gallery && !runs && start(stack, cli, NULL, &err))
        kiln_warn(cli, "the stack runs without its web gallery: %s", err.text);
    else if (stack->gallery && kiln_stack_gallery_url(stack, url))
        kiln_stack_say(cli, NAME, "%s", url);
    kiln_stack_close(stack);
}
