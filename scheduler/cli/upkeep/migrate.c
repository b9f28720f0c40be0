/* migrate.c - `kiln migrate`: upgrades the ledger's schema to the version of this program; --roles
 * makes users of Postgres and Redis with few rights, --secrets DIR also their files:
 *
 *     DIR/kiln_worker.redis     the password of the Redis user
 *     DIR/kiln_worker.pgpass    that of the database role, as libpq reads it
 *     DIR/kiln_worker.conf      the settings in force with these users: kiln-worker --config it
 *
 * One password serves both servers.  It is only in these files (0600, in a directory that only its
 * owner may enter): the servers get hashes, and it is never an argument of a program.
 */
#include <errno.h>
#include <limits.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "scheduler/cli/core/cli.h"
#include "scheduler/cli/core/verbs.h"
#include "schemas/digest.h"
#include "schemas/text/text.h"
#include "storage/bus/acl.h"
#include "storage/bus/bus.h"
#include "storage/formats/replace.h"
#include "storage/ledger/migrate.h"
#include "storage/ledger/upkeep/database_roles.h"

#define SECRET 0600 /* from the first byte on */
#define PASSWORD_BYTES 24
#define PASSWORD_SIZE (2 * PASSWORD_BYTES + 1)

struct user {
    char password[PASSWORD_SIZE], rules[KILN_BUS_RULES_MAX];
};

struct secrets {
    struct kiln_cli *cli;
    char dir[PATH_MAX - 64]; /* absolute */
    struct user users[KILN_BUS_USER_COUNT];
    bool set, saved; /* Redis has the users; it keeps them when it restarts */
};

static char *path_of(const struct secrets *secrets, int user, const char *suffix,
                     char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s.%s", secrets->dir, kiln_bus_user_names[user], suffix);
    return out;
}

/* Makes the directory if needed; only its owner may enter it. */
static int open_dir(struct secrets *secrets, const char *dir, struct kiln_error *err)
{
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return kiln_fail(err, KILN_IO, "make directory %s: %s", dir, strerror(errno));
    char *real = realpath(dir, NULL);
    bool fits =
        real && snprintf(secrets->dir, sizeof secrets->dir, "%s", real) < (int)sizeof secrets->dir;
    free(real);
    if (!fits)
        return kiln_fail(err, KILN_IO, "%s: %s", dir, strerror(real ? ENAMETOOLONG : errno));
    if (stat(secrets->dir, &st) != 0 || !S_ISDIR(st.st_mode) || (st.st_mode & 077))
        return kiln_fail(err, KILN_DENIED,
                         "%s must be a directory that only its owner may enter: chmod 700 %s",
                         secrets->dir, secrets->dir);
    return 0;
}

/* The password of an earlier run, or a new one. */
static int find_password(struct secrets *secrets, int user, struct kiln_error *err)
{
    char path[PATH_MAX], line[PASSWORD_SIZE + 1];
    unsigned char bytes[PASSWORD_BYTES];
    struct user *at = &secrets->users[user];
    FILE *file = fopen(path_of(secrets, user, "redis", path), "re");
    if (file) {
        bool ok = fgets(line, sizeof line, file) != NULL;
        fclose(file);
        line[ok ? strcspn(line, "\n") : 0] = '\0';
        if (strlen(line) != PASSWORD_SIZE - 1 ||
            strspn(line, "0123456789abcdef") != PASSWORD_SIZE - 1)
            return kiln_fail(err, KILN_CORRUPT,
                             "%s contains no password made by Kiln; remove the file", path);
        memcpy(at->password, line, PASSWORD_SIZE);
        return 0;
    }
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return kiln_fail(err, KILN_INTERNAL, "no random numbers for a password");
    kiln_hex(bytes, sizeof bytes, at->password);
    snprintf(line, sizeof line, "%s\n", at->password);
    return kiln_replace(path, line, SECRET, err);
}

/* All settings that differ from the default, with the two servers as this user. */
static int write_settings(const struct secrets *secrets, int user, struct kiln_error *err)
{
    char path[PATH_MAX], pgpass[PATH_MAX], password[PATH_MAX], redis[512];
    const struct kiln_config *config = secrets->cli->config;
    struct kiln_text text = {0};
    char *conninfo = NULL;
    bool role = user < KILN_ROLE_COUNT;
    int rc = kiln_bus_url_as(kiln_config_text(config, KILN_KEY_REDIS), kiln_bus_user_names[user],
                             redis, sizeof redis, err);
    if (rc == 0 && role)
        rc = kiln_roles_conninfo(config, kiln_bus_user_names[user],
                                 path_of(secrets, user, "pgpass", pgpass), &conninfo, err);
    if (rc)
        return rc;
    kiln_text_printf(&text,
                     "# made by kiln migrate --roles\nredis = %s\nredis_password_file = %s\n",
                     redis, path_of(secrets, user, "redis", password));
    if (role)
        kiln_text_printf(&text, "postgres = %s\n", conninfo);
    for (int key = 0; key < KILN_KEY_COUNT; key++) {
        const char *value = kiln_config_text(config, (enum kiln_key)key);
        if (key != KILN_KEY_REDIS && key != KILN_KEY_REDIS_PASSWORD_FILE &&
            key != KILN_KEY_POSTGRES && strcmp(value, kiln_keys[key].value) != 0)
            kiln_text_printf(&text, "%s = %s\n", kiln_keys[key].name, value);
    }
    free(conninfo);
    char *settings = kiln_text_take(&text);
    rc = settings ? kiln_replace(path_of(secrets, user, "conf", path), settings, SECRET, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory for settings");
    free(settings);
    return rc;
}

static int write_user(struct secrets *secrets, int user, struct kiln_error *err)
{
    char path[PATH_MAX], line[PASSWORD_SIZE + 96], hash[2 * KILN_SHA256_SIZE + 1];
    uint8_t digest[KILN_SHA256_SIZE];
    struct user *at = &secrets->users[user];
    int rc = find_password(secrets, user, err);
    if (rc)
        return rc;
    snprintf(line, sizeof line, "*:*:*:%s:%s\n", kiln_bus_user_names[user], at->password);
    if (user < KILN_ROLE_COUNT)
        rc = kiln_replace(path_of(secrets, user, "pgpass", path), line, SECRET, err);
    if (rc == 0)
        rc = write_settings(secrets, user, err);
    kiln_sha256(at->password, strlen(at->password), digest);
    kiln_hex(digest, sizeof digest, hash);
    return rc ? rc : kiln_bus_rules(user, kiln_pool(secrets->cli), hash, at->rules, err);
}

/* Continues if Redis refuses: the lines on stdout are for its ACL file. */
static int set_users(struct secrets *secrets, struct kiln_error *err)
{
    struct kiln_bus *bus = NULL;
    int rc = kiln_open_bus(secrets->cli, &bus, err);
    for (int i = 0; i < KILN_BUS_USER_COUNT && rc == 0; i++)
        rc = kiln_bus_set_user(bus, kiln_bus_user_names[i], secrets->users[i].rules, err);
    secrets->set = rc == 0;
    if (rc == 0)
        secrets->saved = kiln_bus_save_users(bus, err) == 0;
    kiln_bus_close(bus);
    if (rc == KILN_DENIED) {
        kiln_warn(secrets->cli, "%s", err->text);
        rc = 0;
    }
    return rc;
}

static int say_users(const struct secrets *secrets, int made)
{
    struct kiln_cli *cli = secrets->cli;
    json_t *lines = json_array();
    for (int i = 0; i < KILN_BUS_USER_COUNT; i++) {
        if (!cli->json)
            printf("user %s %s\n", kiln_bus_user_names[i], secrets->users[i].rules);
        json_array_append_new(
            lines, json_sprintf("user %s %s", kiln_bus_user_names[i], secrets->users[i].rules));
    }
    kiln_say(cli, "%s made; %s has a settings file for each user",
             KILN_COUNT((uint64_t)made, "database role"), secrets->dir);
    if (!secrets->saved)
        kiln_say(cli, "Redis %s; add the lines above to its ACL file (aclfile in redis.conf)",
                 secrets->set ? "keeps the users only until it restarts" : "was not changed");
    int status =
        cli->json
            ? kiln_print_json(cli, json_pack("{s:i, s:s, s:b, s:b, s:O}", "made", made, "secrets",
                                             secrets->dir, "redis_set", secrets->set, "redis_saved",
                                             secrets->saved, "redis_users", lines))
            : 0;
    json_decref(lines);
    return status;
}

/* Makes the database roles; with a directory also passwords in it, the Redis users, and a settings
 * file a role.  Files that the directory already has are kept, so it can be repeated while daemons
 * use them.  Prints the users for Redis' ACL file on stdout, or a JSON object.  An exit status. */
static int make_roles(struct kiln_cli *cli, const char *dir)
{
    struct kiln_error err;
    struct secrets secrets = {.cli = cli};
    const char *passwords[KILN_ROLE_COUNT] = {NULL};
    int made = 0;
    int rc = dir ? open_dir(&secrets, dir, &err) : 0;
    for (int i = 0; dir && i < KILN_BUS_USER_COUNT && rc == 0; i++) {
        rc = write_user(&secrets, i, &err);
        if (i < KILN_ROLE_COUNT)
            passwords[i] = secrets.users[i].password;
    }
    if (rc == 0)
        rc = kiln_roles_make(cli->config, passwords, &made, &err);
    if (rc == 0 && dir)
        rc = set_users(&secrets, &err);
    if (rc)
        return kiln_report(cli, &err);
    if (dir)
        return say_users(&secrets, made);
    kiln_say(cli,
             "%s made, without passwords; --secrets DIR also makes passwords, Redis users and "
             "settings files",
             KILN_COUNT((uint64_t)made, "database role"));
    return cli->json ? kiln_print_json(cli, json_pack("{s:i}", "made", made)) : 0;
}

/* --- the verb ----------------------------------------------------------------------------------
 */

/* Prints a line when a phase begins, and for each further tenth. */
struct building {
    struct kiln_cli *cli;
    char phase[64];
    int tenths;
};

static void say_progress(void *arg, const char *index, const char *phase, double done)
{
    struct building *building = arg;
    int tenths = (int)(done * 10);
    if (strcmp(phase, building->phase) == 0 && tenths <= building->tenths)
        return;
    snprintf(building->phase, sizeof building->phase, "%s", phase);
    building->tenths = tenths;
    kiln_say(building->cli, "index %s: %s, %d %%", index, phase, tenths * 10);
}

int kiln_verb_migrate(struct kiln_cli *cli, const struct kiln_args *args)
{
    struct kiln_error err;
    struct building building = {.cli = cli};
    bool dry_run = kiln_arg(args, "dry-run") != NULL;
    bool roles = kiln_arg(args, "roles") != NULL;
    if (kiln_arg(args, "secrets") && !roles)
        return kiln_usage(cli, "--secrets needs --roles");
    if (roles && dry_run)
        return kiln_usage(cli, "--roles has no --dry-run");
    struct kiln_migration migration = {
        .dry_run = dry_run, .progress = say_progress, .arg = &building};
    if (kiln_migrate(cli->config, &migration, &err))
        return kiln_report(cli, &err);
    int from = migration.from, to = migration.to;
    if (from == to)
        kiln_say(cli, "the schema has version %d, the newest; nothing to do", from);
    else
        kiln_say(cli,
                 dry_run ? "would upgrade the schema from version %d to %d"
                         : "upgraded the schema from version %d to %d",
                 from, to);
    if (roles)
        return make_roles(cli, kiln_arg(args, "secrets"));
    return cli->json ? kiln_print_json(cli, json_pack("{s:i, s:i, s:b}", "from", from, "to", to,
                                                      "dry_run", (int)dry_run))
                     : 0;
}
