/* site.c - starting, tending and ending the programs of a run. */
#include "tests/chaos/site.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/stack_postgres.h"

#define DISK_SIZE "size=192m"
#define DEMO_EVERY 8 /* seeds */

/* --- starting --------------------------------------------------------------------------------- */

/* Of the run, for the end of a program that gives up in its middle. */
static char mounted[sizeof(((struct chaos_site *)0)->disk)];

static void unmount_disk(void)
{
    if (mounted[0] && (umount2(mounted, MNT_DETACH) != 0 || rmdir(mounted) != 0))
        printf("%s stays behind: %s\n", mounted, strerror(errno));
    mounted[0] = '\0';
}

/* A small disk for the stack, where we may mount one: a full disk is then a real one. */
static void mount_disk(struct chaos_site *site)
{
    static bool told;
    const char *base = getenv("TMPDIR");
    base = base && strlen(base) < 50 ? base : "/tmp"; /* a socket's path must be short */
    snprintf(site->disk, sizeof site->disk, "%.50s/disk.%d", base, (int)getpid());
    if ((mkdir(site->disk, 0711) == 0 || errno == EEXIST) &&
        mount("tmpfs", site->disk, "tmpfs", 0, DISK_SIZE) == 0) {
        /* Postgres' user passes through. */
        if (chmod(site->disk, 0711) != 0 || (strcmp(base, "/tmp") != 0 && chmod(base, 0711) != 0))
            kiln_test_die("chmod %s: %s", site->disk, strerror(errno));
        memcpy(mounted, site->disk, sizeof mounted);
        return;
    }
    if (!told)
        printf("skip: no right to mount a small disk (%s): it will not be full\n", strerror(errno));
    told = true;
    rmdir(site->disk);
    site->disk[0] = '\0';
}

static void start_stack(struct chaos_site *site)
{
    const char *given = getenv("TMPDIR");
    char *before = given ? strdup(given) : NULL;
    mount_disk(site);
    if (site->disk[0])
        setenv("TMPDIR", site->disk, 1);
    site->stack = kiln_test_stack_start(KILN_STACK_REDIS | KILN_STACK_TABLES | KILN_STACK_TCP);
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
}

static void lay_network(const struct chaos_site *site, struct chaos_seat *seat, int number,
                        const int ports[TEST_CABLES])
{
    if (site->rooms)
        seat->room = test_room_new(number);
    for (int i = 0; !site->rooms && i < TEST_CABLES; i++)
        seat->links[i] = test_link_start(ports[i]);
}

/* The stack's own settings with the network put in, and short limits, so that a run is short. */
static void take_seat(struct chaos_site *site, struct chaos_seat *seat, const char *name,
                      int number)
{
    int ports[TEST_CABLES] = {site->stack->port[KILN_TEST_REDIS],
                              site->stack->port[KILN_TEST_POSTGRES], test_proxy_port(site->store)};
    const char *hosts[TEST_CABLES];
    lay_network(site, seat, number, ports);
    for (int i = 0; i < TEST_CABLES; i++) {
        hosts[i] = seat->room ? test_network_address((enum test_cable)i) : "127.0.0.1";
        ports[i] = seat->room ? ports[i] : test_link_port(seat->links[i]);
    }
    seat->view = *site->stack;
    snprintf(seat->view.conf, sizeof seat->view.conf, "%.120s/%s.conf", site->stack->dir, name);
    FILE *conf = fopen(seat->view.conf, "we");
    if (!conf)
        kiln_test_die("cannot write %s", seat->view.conf);
    fprintf(conf,
            "redis = redis://%s:%d/0\n"
            "postgres = host=%s port=%d user=kiln dbname=postgres\n"
            "store = %s\ns3_endpoint = http://%s:%d\n"
            "max_attempts = 50\nstatement_timeout_s = 3\nbackoff_max_s = 0.5\ndrain_s = 5\n",
            hosts[TEST_CABLE_REDIS], ports[TEST_CABLE_REDIS], hosts[TEST_CABLE_POSTGRES],
            ports[TEST_CABLE_POSTGRES], site->store_url, hosts[TEST_CABLE_STORE],
            ports[TEST_CABLE_STORE]);
    if (fclose(conf) != 0)
        kiln_test_die("cannot write %s", seat->view.conf);
}

/* Between the two, programs are started at that seat. */
static void sit_down(const struct chaos_seat *seat)
{
    if (seat->room)
        test_room_enter(seat->room);
}

static void stand_up(const struct chaos_seat *seat)
{
    if (seat->room)
        test_room_leave();
}

static void start_worker(struct chaos_site *site, int which)
{
    char id[16];
    snprintf(id, sizeof id, "w%d", which);
    const char *more[] = {"--store", site->store_url, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    static const char *const drawn[] = {"--engine", "pipeline", "--threads", "1", "--model"};
    for (size_t i = 0; site->model[0] && i < sizeof drawn / sizeof *drawn; i++)
        more[2 + i] = drawn[i];
    if (site->model[0])
        more[7] = site->model;
    sit_down(&site->worker_seats[which]);
    kiln_test_worker_start(&site->workers[which], &site->worker_seats[which].view, id, more, false);
    stand_up(&site->worker_seats[which]);
    site->worker_away[which] = false;
}

static void start_scheduler(struct chaos_site *site, int which)
{
    char name[16];
    snprintf(name, sizeof name, "s%d", which);
    sit_down(&site->scheduler_seats[which]);
    kiln_test_scheduler_launch(&site->schedulers[which], &site->scheduler_seats[which].view, name);
    stand_up(&site->scheduler_seats[which]);
    site->scheduler_away[which] = false;
}

/* Not in a build without LibTorch, whose worker has no other engine. */
static void choose_engine(struct chaos_site *site)
{
    const char *source = getenv("KILN_SOURCE");
    char config[600], library[600];
    if (site->plan.seed % DEMO_EVERY != 0 || !source ||
        !kiln_test_built("libdiffusionz.so", library, sizeof library))
        return;
    snprintf(site->model, sizeof site->model, "%s/pipeline/models/sketch", source);
    snprintf(config, sizeof config, "%s/transformer/config.json", site->model);
    if (access(config, R_OK) != 0 || access(library, R_OK) != 0)
        site->model[0] = '\0';
}

void chaos_site_start(struct chaos_site *site, struct test_swift *swift, struct test_proxy *store,
                      bool rooms)
{
    static bool registered;
    if (!registered) /* before the stack's own: those run in reverse */
        registered = atexit(unmount_disk) == 0;
    site->swift = swift;
    site->store = store;
    snprintf(site->prefix, sizeof site->prefix, "seed-%llu", (unsigned long long)site->plan.seed);
    snprintf(site->store_url, sizeof site->store_url, "s3://" TEST_BUCKET "/%s", site->prefix);
    site->rooms = rooms && site->plan.seed % 2 == 1;
    test_proxy_script(store, NULL, 0);
    choose_engine(site);
    start_stack(site);
    for (int i = 0; i < CHAOS_SCHEDULERS; i++) {
        char name[24];
        snprintf(name, sizeof name, "s%d", i);
        take_seat(site, &site->scheduler_seats[i], name, i);
        start_scheduler(site, i);
    }
    for (int i = 0; i < CHAOS_WORKERS; i++) {
        char name[24];
        snprintf(name, sizeof name, "w%d", i);
        take_seat(site, &site->worker_seats[i], name, CHAOS_SCHEDULERS + i);
        start_worker(site, i);
    }
    for (int i = 0; i < CHAOS_WORKERS; i++)
        if (!kiln_test_worker_hears(&site->workers[i], "worker_ready", 60))
            kiln_test_die("worker %d did not get ready; see %s", i, site->workers[i].process.log);
}

/* --- tending ---------------------------------------------------------------------------------- */

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid;
}

void chaos_tend(struct chaos_site *site)
{
    for (int i = 0; i < CHAOS_WORKERS; i++)
        if (!site->worker_away[i] && (site->workers[i].process.pid == 0 ||
                                      kiln_test_worker_wait(&site->workers[i], 0) != -1)) {
            site->restarts++;
            start_worker(site, i);
        }
    for (int i = 0; i < CHAOS_SCHEDULERS; i++)
        if (!site->scheduler_away[i] &&
            (site->schedulers[i].process.pid == 0 || has_ended(site->schedulers[i].process.pid))) {
            (void)kiln_test_scheduler_kill(&site->schedulers[i]);
            site->restarts++;
            start_scheduler(site, i);
        }
}

/* --- ending ----------------------------------------------------------------------------------- */

static bool names(pid_t pid, const char *text)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t i = 0; i < len; i++)
        if (line[i] == '\0')
            line[i] = ' ';
    line[len] = '\0';
    return strstr(line, text) != NULL;
}

/* Processes whose command line names the run's directory: its programs, not its servers' children,
 * which rename themselves. */
static bool nobody_left(const struct chaos_site *site)
{
    bool good = true;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc)) != NULL;) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || pid == getpid() || pid == site->stack->pid[KILN_TEST_REDIS] ||
            pid == site->stack->pid[KILN_TEST_POSTGRES] || !names(pid, site->stack->dir))
            continue;
        printf("process %d of the run is still there\n", (int)pid);
        good = false;
    }
    if (proc)
        closedir(proc);
    return good;
}

bool chaos_site_end(struct chaos_site *site)
{
    bool good = true;
    for (int i = 0; i < CHAOS_WORKERS; i++)
        kiln_test_worker_signal(&site->workers[i], SIGTERM);
    for (int i = 0; i < CHAOS_WORKERS; i++) {
        int status = kiln_test_worker_stop(&site->workers[i]);
        if (status != 0)
            printf("worker %d ended with %d; see %s\n", i, status, site->workers[i].process.log);
        good = good && status == 0;
    }
    for (int i = 0; i < CHAOS_SCHEDULERS; i++) {
        int status = kiln_test_scheduler_stop(&site->schedulers[i]);
        if (status != 0)
            printf("scheduler %d ended with %d; see %s\n", i, status,
                   site->schedulers[i].process.log);
        good = good && status == 0;
    }
    return nobody_left(site) && good;
}

static void leave(struct chaos_seat *seat)
{
    test_room_free(seat->room);
    for (int i = 0; i < TEST_CABLES; i++)
        test_link_stop(seat->links[i]);
}

/* The logs out of the directory that is about to go. */
static void keep_logs(const struct chaos_site *site)
{
    char command[600];
    snprintf(command, sizeof command,
             "d=/tmp/kiln-chaos-%llu; rm -rf $d; mkdir -p $d && cp '%s'/*.log '%s'/*.conf $d/ && "
             "echo \"the logs are kept in $d\"",
             (unsigned long long)site->plan.seed, site->stack->dir, site->stack->dir);
    if (system(command) != 0)
        printf("the logs could not be kept\n");
}

void chaos_site_stop(struct chaos_site *site, bool keep)
{
    for (int i = 0; i < CHAOS_WORKERS; i++) {
        kiln_test_worker_signal(&site->workers[i], SIGKILL);
        (void)kiln_test_worker_wait(&site->workers[i], 10);
        leave(&site->worker_seats[i]);
    }
    for (int i = 0; i < CHAOS_SCHEDULERS; i++) {
        (void)kiln_test_scheduler_kill(&site->schedulers[i]);
        leave(&site->scheduler_seats[i]);
    }
    if (keep)
        keep_logs(site);
    kiln_test_stack_stop(site->stack);
    unmount_disk();
}
