/* stack.h - the embedded stack: private servers and daemons that live in one directory.
 *
 *     DIR/kiln.conf         what every command of this stack is pointed at
 *     DIR/stack.json        how many workers on which devices, where Postgres lives
 *     DIR/run/NAME.pid      redis, postgres, scheduler, gallery, worker-0, ..., crew (guard.h)
 *     DIR/run/gallery.url   the address of the web gallery
 *     DIR/run/lock          held while `up` or `down` works
 *     DIR/log/NAME.log      what each of them says
 *     DIR/redis, DIR/postgres, DIR/store   the data; `down` leaves it alone
 *
 * A process counts as running when its pid file names a live process whose command line holds the
 * paths of this stack, so a pid that another process has got since is not mistaken for ours.  Two
 * stacks share nothing: servers listen on unix sockets only.
 */
#ifndef KILN_CLI_STACK_H
#define KILN_CLI_STACK_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/paths.h"

#define KILN_STACK_WORKERS_MAX 64
#define KILN_STACK_DEVICES_MAX 16
#define KILN_PROCESS_NAME_MAX 32
#define KILN_REDIS_SOCKET "redis/redis.sock" /* below the directory of the sockets */

struct kiln_stack {
    char dir[PATH_MAX];     /* absolute */
    char conf[PATH_MAX];    /* DIR/kiln.conf */
    char bin[PATH_MAX];     /* where kiln, kiln-scheduler and kiln-worker are */
    char data[PATH_MAX];    /* Postgres' data directory */
    char sockets[PATH_MAX]; /* directory of redis/ and postgres/, both of mode 700 */
    bool as_other;          /* we are root: Postgres runs as the user below */
    uid_t uid;
    gid_t gid;
    char user[64];
    int workers;  /* -1 = not decided yet */
    bool gallery; /* `up` starts a web gallery */
    char devices[KILN_STACK_DEVICES_MAX][32];
    int device_count;
    int lock_fd; /* -1 when not held */
    bool made;   /* the directory was not there before */
    bool begun;  /* the first part runs: what fails from here leaves something behind */
};

/* --- stack.c: the directory ------------------------------------------------------------------- */
/* Fills paths and what stack.json says.  create: makes the directories, else KILN_NOT_FOUND. */
int kiln_stack_open(struct kiln_stack *stack, const char *dir, bool create,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Waits up to 120 s for another up or down in the same directory. */
int kiln_stack_lock(struct kiln_stack *stack, struct kiln_error *err) KILN_MUST_CHECK;
bool kiln_stack_try_lock(struct kiln_stack *stack) KILN_MUST_CHECK; /* does not wait */
void kiln_stack_close(struct kiln_stack *stack);
/* After a failure: removes a directory that this command made, if nothing was written there. */
void kiln_stack_unmake(const struct kiln_stack *stack);
int kiln_stack_save(const struct kiln_stack *stack, struct kiln_error *err) KILN_MUST_CHECK;
/* Makes a directory of exactly that mode; an existing one is unchanged. */
int kiln_stack_make_dir(const char *path, mode_t mode, struct kiln_error *err) KILN_MUST_CHECK;
/* "worker-3", which names the files of a worker of the stack, and its number, -1 for any other. */
void kiln_stack_worker_name(int number, char out[KILN_PROCESS_NAME_MAX]);
int kiln_stack_worker_number(const char *name);
/* Replaces the command's settings by those of the file; a broken file changes nothing. */
void kiln_stack_reload(struct kiln_cli *cli, const char *path);

/* --- meant.c: which stack a command means ----------------------------------------------------- */
/* The settings file that applies, "" for none, without reading it. */
void kiln_settings_path(const struct kiln_cli *cli, char out[PATH_MAX]);
/* The directory of a private stack's kiln.conf; false: it belongs to no private stack.  An `up`
 * that failed early left its lock and directories, but no stack.json.  The directory of `kiln
 * worker` has no redis/. */
bool kiln_stack_of(const char *config_path, char out[PATH_MAX]);
/* Of `up` and `down`: dir (--dir) or, if it is NULL, where the file of --config is, which must be
 * of a stack (KILN_NOT_FOUND), or where that of KILN_CONFIG is, if it is of one, or .kiln. */
int kiln_stack_meant(const struct kiln_cli *cli, const char *dir, char out[PATH_MAX],
                     struct kiln_error *err) KILN_MUST_CHECK;

/* --- devices.c: --device as a list: "cpu", "cuda:0,cuda:1", "cuda:all" -------------------------
 */
struct kiln_devices {
    char at[KILN_STACK_DEVICES_MAX][32];
    int count;
};
/* cuda:all becomes one entry a GPU.  A GPU that this machine does not have is refused here, where
 * the number is still in sight, and not by a worker that dies in the background. */
int kiln_devices_read(const char *text, struct kiln_devices *ret,
                      struct kiln_error *err) KILN_MUST_CHECK;
/* KILN_CONFIG if --device was given and is no such list, whatever GPUs there are. */
int kiln_devices_flag(const struct kiln_config *config, struct kiln_error *err) KILN_MUST_CHECK;

/* --- socket_dir.c: folders outside DIR for the sockets where DIR cannot take them (see stack.c) --
 */
/* The side folder of this DIR, made if it is missing.  KILN_DENIED where it is not ours. */
int kiln_socket_dir_open(const char *dir, char out[PATH_MAX],
                         struct kiln_error *err) KILN_MUST_CHECK;
bool kiln_socket_dir_is(const char *path);
/* Removes side folders of this user whose stack is gone; returns how many.  One stays as long as
 * anything might use it: it says which DIR it is of, that DIR is not there any more or names
 * another folder, no process listens on its sockets, and it holds nothing but sockets.  One that
 * does not say so, of an earlier release, stays for a day after it was last used. */
int kiln_socket_dirs_sweep(void);

/* --- conf.c: kiln.conf ------------------------------------------------------------------------ */
/* Whether paths of flags and environment exist, before anything is made. */
int kiln_stack_check_given(const struct kiln_config *given, struct kiln_error *err) KILN_MUST_CHECK;
/* Lays the file of an earlier `up` under the flags and environment of this one, writes back what
 * they changed, and keeps lines and comments of people.  *ret_changed: a running daemon would
 * read something else now.  config becomes what the file now says. */
int kiln_stack_configure(struct kiln_stack *stack, struct kiln_cli *cli, bool *ret_changed,
                         struct kiln_error *err) KILN_MUST_CHECK;

/* --- process.c -------------------------------------------------------------------------------- */
struct kiln_spawn {
    const char *name;
    const char *const *argv; /* argv[0] is the path of the program; NULL ends it */
    bool as_other;           /* run as stack->user when we are root */
    const char *cwd;
    const char *said;  /* how kiln_process_up reports the start; NULL: "started" */
    bool dies_with_us; /* a helper that makes no sense without the command that started it */
    bool holds_hup;    /* SIGHUP waits until the program is ready for it */
};
/* The pid of the running process of that name, 0 if there is none.  marks: texts its command line
 * must hold to be ours, each argument followed by a line break, NULL at the end. */
pid_t kiln_process_find(const struct kiln_stack *stack, const char *name, const char *const *marks);
/* The same of a worker; id NULL: of a stack whatever it is called on the bus, else the name; device
 * NULL: on any. */
pid_t kiln_worker_find(const struct kiln_stack *stack, const char *name, const char *id,
                       const char *device);
/* DIR/log/NAME.log */
char *kiln_process_log(const struct kiln_stack *stack, const char *name, char out[PATH_MAX]);
/* Starts it in a session of its own with DIR/log/NAME.log behind stdout and stderr, writes the pid
 * file.  KILN_* variables are not passed on: the daemons read kiln.conf only. */
int kiln_process_start(const struct kiln_stack *stack, const struct kiln_spawn *spawn, pid_t *ret,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Whether a child or a stranger is still there; reaps a child that has ended. */
bool kiln_process_alive(pid_t pid);
/* Waits up to limit_s; true when it has gone. */
bool kiln_process_wait_gone(pid_t pid, double limit_s);
/* Signals it, waits, kills it when the time is up, removes the pid file; true: it went by itself.
 */
bool kiln_process_stop(const struct kiln_stack *stack, const char *name, pid_t pid, int signal_no,
                       double limit_s);
void kiln_process_forget(const struct kiln_stack *stack, const char *name); /* the pid file */
/* Runs a program to its end (initdb), output into DIR/log/NAME.log, input from text (NULL: none).
 */
int kiln_process_run(const struct kiln_stack *stack, const struct kiln_spawn *spawn,
                     const char *input, double limit_s, struct kiln_error *err) KILN_MUST_CHECK;
/* Sets *ret_ready once the process does its work; an error ends the waiting. */
typedef int kiln_process_probe(void *arg, bool *ret_ready, struct kiln_error *err);
/* Probes a process until it is ready.  KILN_UNAVAILABLE: it ended; its pid file is removed then. */
int kiln_process_ready(const struct kiln_stack *stack, const char *name, pid_t pid, int limit_s,
                       kiln_process_probe *probe, void *arg,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* Starts it unless it runs as pid, waits until it is ready, and says so; after an error it shows
 * the end of its log. */
int kiln_process_up(const struct kiln_stack *stack, const struct kiln_cli *cli,
                    const struct kiln_spawn *spawn, pid_t pid, int limit_s,
                    kiln_process_probe *probe, void *arg, struct kiln_error *err) KILN_MUST_CHECK;
/* A line of `up` and `down` on stderr: a part of the stack in its column, and what becomes of it.
 */
void kiln_stack_say(const struct kiln_cli *cli, const char *part, const char *fmt, ...)
    KILN_PRINTF(3, 4);
/* The last lines of DIR/log/NAME.log on stderr. */
void kiln_process_tail(const struct kiln_cli *cli, const struct kiln_stack *stack,
                       const char *name);

/* --- servers.c -------------------------------------------------------------------------------- */
/* Each says what runs, starts the server unless it does, and waits until it answers. */
pid_t kiln_stack_find_redis(const struct kiln_stack *stack);
pid_t kiln_stack_find_postgres(const struct kiln_stack *stack);
int kiln_stack_redis(struct kiln_stack *stack, struct kiln_cli *cli,
                     struct kiln_error *err) KILN_MUST_CHECK;
int kiln_stack_postgres(struct kiln_stack *stack, struct kiln_cli *cli,
                        struct kiln_error *err) KILN_MUST_CHECK;

/* --- memory.c --------------------------------------------------------------------------------- */
/* Bytes of memory that a process of this machine may use: all of it, or less where its control
 * group (version 1 or 2), or one above it, has a limit.  root: "" in earnest; tests have their own
 * proc and sys there. */
uint64_t kiln_stack_memory(const char *root);

/* --- daemons.c -------------------------------------------------------------------------------- */
pid_t kiln_stack_find_scheduler(const struct kiln_stack *stack);
/* restart: stops a running one first, because its settings changed. */
int kiln_stack_scheduler(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                         struct kiln_error *err) KILN_MUST_CHECK;
/* Ends workers that are too many, on another device or of earlier settings; has the guard start
 * those that are missing, and waits for their heartbeats. */
int kiln_stack_workers(struct kiln_stack *stack, struct kiln_cli *cli, bool restart,
                       struct kiln_error *err) KILN_MUST_CHECK;

/* --- gallery.c -------------------------------------------------------------------------------- */
#define KILN_GALLERY_URL_MAX 128
pid_t kiln_stack_find_gallery(const struct kiln_stack *stack);
/* Its address; false if it does not run. */
bool kiln_stack_gallery_url(const struct kiln_stack *stack, char out[KILN_GALLERY_URL_MAX]);
/* Starts the gallery of a stack that is up, unless it runs with the settings of now, and says its
 * address; choice 1 and 0 (stop it, and start none from now on) are remembered, -1: as before. */
void kiln_stack_gallery(struct kiln_stack *stack, struct kiln_cli *cli, int choice);
/* For the guard: starts a gallery again that has ended although nobody stopped it, after 1, 2, 4,
 * ... 60 s.  tended is zero-initialised. */
struct kiln_gallery_tended {
    pid_t pid; /* of the one that was started here */
    double due_s;
    uint32_t failures;
};
void kiln_stack_gallery_tend(struct kiln_stack *stack, struct kiln_gallery_tended *tended);
/* Returns how many it has stopped: 0 or 1. */
int kiln_stack_gallery_stop(struct kiln_stack *stack, struct kiln_cli *cli);

/* --- up.c, down.c ----------------------------------------------------------------------------- */
/* Everything `kiln up` does, for `kiln run` too; cli's settings become those of the stack.
 * workers -1: as before, one a device at first; 0: none, they run elsewhere. */
int kiln_stack_up(struct kiln_cli *cli, const char *dir, long workers, struct kiln_stack *stack,
                  struct kiln_error *err) KILN_MUST_CHECK;
/* After kiln_stack_up failed: says what it leaves running, if anything. */
void kiln_stack_say_begun(const struct kiln_stack *stack, const struct kiln_cli *cli);
/* Starts again what has died since; says so.  Cheap when nothing has. */
int kiln_stack_tend(struct kiln_stack *stack, struct kiln_cli *cli,
                    struct kiln_error *err) KILN_MUST_CHECK;
/* Stops the processes of an open stack, in the order in which nothing is lost; returns how many. */
int kiln_stack_down(struct kiln_stack *stack, struct kiln_cli *cli);

#endif
