/* roles.c - see roles.h. */
#include "scheduler/cli/upkeep/roles.h"

#include <errno.h>
#include <limits.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schemas/digest.h"
#include "schemas/text/text.h"
#include "storage/bus/acl.h"
#include "storage/bus/bus.h"
#include "storage/formats/regular.h"
#include "storage/formats/replace.h"
#include "storage/ledger/upkeep/database_roles.h"

#define SECRET 0600 /* from the first byte on */
#define PASSWORD_BYTES 24
#define PASSWORD_SIZE (2 * PASSWORD_BYTES + 1)
#define ACL_FILE_MAX ((size_t)1 << 20)

struct user {
    char password[PASSWORD_SIZE], rules[KILN_BUS_RULES_MAX];
};

struct secrets {
    struct kiln_cli *cli;
    char dir[PATH_MAX - 64]; /* absolute */
    uid_t uid;               /* whom it belongs to, and so the files in it */
    gid_t gid;
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
    secrets->uid = st.st_uid;
    secrets->gid = st.st_gid;
    return 0;
}

/* A file that root writes for somebody else; other users only write their own. */
static int hand_over(const char *path, uid_t uid, gid_t gid, struct kiln_error *err)
{
    if (geteuid() == 0 && lchown(path, uid, gid) != 0)
        return kiln_fail(err, KILN_IO, "give %s to its user: %s", path, strerror(errno));
    return 0;
}

/* Replaces a file of the directory, which root writes for the user of the units. */
static int put_file(const struct secrets *secrets, int user, const char *suffix, const char *text,
                    struct kiln_error *err)
{
    char path[PATH_MAX];
    int rc = kiln_replace(path_of(secrets, user, suffix, path), text, SECRET, err);
    return rc ? rc : hand_over(path, secrets->uid, secrets->gid, err);
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
    return put_file(secrets, user, "redis", line, err);
}

/* NAME="value" as systemd's EnvironmentFile= and a shell read it. */
static void put_variable(struct kiln_text *text, enum kiln_key key, const char *value)
{
    kiln_text_puts(text, "KILN_");
    for (const char *at = kiln_keys[key].name; *at; at++)
        kiln_text_printf(text, "%c", *at == '_' ? '_' : *at - 'a' + 'A');
    kiln_text_puts(text, "=\"");
    for (; *value; value++)
        kiln_text_printf(text, "%s%c", strchr("\"\\$`", *value) ? "\\" : "", *value);
    kiln_text_puts(text, "\"\n");
}

/* The two servers as this user, for a daemon that has its other settings from its own host. */
static int write_environment(const struct secrets *secrets, int user, const char *redis,
                             const char *conninfo, struct kiln_error *err)
{
    char path[PATH_MAX];
    struct kiln_text text = {0};
    put_variable(&text, KILN_KEY_REDIS, redis);
    put_variable(&text, KILN_KEY_REDIS_PASSWORD_FILE, path_of(secrets, user, "redis", path));
    if (conninfo)
        put_variable(&text, KILN_KEY_POSTGRES, conninfo);
    char *lines = kiln_text_take(&text);
    int rc = lines ? put_file(secrets, user, "env", lines, err)
                   : kiln_fail(err, KILN_NO_MEMORY, "no memory for settings");
    free(lines);
    return rc;
}

/* Every setting that was made, even if it equals the default, with the servers as this user. */
static int write_settings(const struct secrets *secrets, int user, struct kiln_error *err)
{
    char pgpass[PATH_MAX], password[PATH_MAX], redis[512];
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
            key != KILN_KEY_POSTGRES &&
            strcmp(kiln_config_origin(config, (enum kiln_key)key), "default") != 0)
            kiln_text_printf(&text, "%s = %s\n", kiln_keys[key].name, value);
    }
    char *settings = kiln_text_take(&text);
    rc = settings ? put_file(secrets, user, "conf", settings, err)
                  : kiln_fail(err, KILN_NO_MEMORY, "no memory for settings");
    if (rc == 0)
        rc = write_environment(secrets, user, redis, conninfo, err);
    free(settings);
    free(conninfo);
    return rc;
}

static int write_user(struct secrets *secrets, int user, struct kiln_error *err)
{
    char line[PASSWORD_SIZE + 96], hash[2 * KILN_SHA256_SIZE + 1];
    uint8_t digest[KILN_SHA256_SIZE];
    struct user *at = &secrets->users[user];
    int rc = find_password(secrets, user, err);
    if (rc)
        return rc;
    snprintf(line, sizeof line, "*:*:*:%s:%s\n", kiln_bus_user_names[user], at->password);
    if (user < KILN_ROLE_COUNT)
        rc = put_file(secrets, user, "pgpass", line, err);
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

/* Whether the line makes one of our users. */
static bool is_ours(const char *line)
{
    for (int i = 0; i < KILN_BUS_USER_COUNT; i++) {
        size_t len = strlen(kiln_bus_user_names[i]);
        if (strncmp(line, "user ", 5) == 0 && strncmp(line + 5, kiln_bus_user_names[i], len) == 0 &&
            (line[5 + len] == ' ' || line[5 + len] == '\0'))
            return true;
    }
    return false;
}

/* The lines of our users in an ACL file of Redis, in the place of those that it has; all others,
 * the mode and the owner stay.  Redis refuses to start with a file that makes a user twice. */
static int write_acl(const struct secrets *secrets, const char *path, struct kiln_error *err)
{
    struct stat st = {.st_mode = 0640, .st_uid = geteuid(), .st_gid = getegid()};
    struct kiln_text text = {0};
    char *before = NULL, *save = NULL;
    size_t size;
    int rc = kiln_regular_read(path, ACL_FILE_MAX, &before, &size, err);
    if (rc == KILN_NOT_FOUND)
        rc = 0;
    else if (rc == 0 && stat(path, &st) != 0)
        rc = kiln_fail(err, KILN_IO, "%s: %s", path, strerror(errno));
    for (char *line = before ? strtok_r(before, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save))
        if (!is_ours(line))
            kiln_text_printf(&text, "%s\n", line);
    for (int i = 0; i < KILN_BUS_USER_COUNT; i++)
        kiln_text_printf(&text, "user %s %s\n", kiln_bus_user_names[i], secrets->users[i].rules);
    char *lines = kiln_text_take(&text);
    if (rc == 0 && !lines)
        rc = kiln_fail(err, KILN_NO_MEMORY, "no memory for %s", path);
    /* A umask of 077 would take the group's read access, by which Redis reads the file.  A chmod
     * afterwards could be led elsewhere by a link that the directory's owner puts there. */
    const mode_t mask = before ? umask(0) : 0;
    if (rc == 0)
        rc = kiln_replace(path, lines, st.st_mode & 07777, err);
    if (before)
        umask(mask);
    free(before);
    free(lines);
    return rc ? rc : hand_over(path, st.st_uid, st.st_gid, err);
}

/* acl: the file that has the lines already, or NULL: they go to stdout, unless Redis has saved
 * them. */
static int say_users(const struct secrets *secrets, int made, const char *acl)
{
    struct kiln_cli *cli = secrets->cli;
    json_t *lines = json_array();
    for (int i = 0; i < KILN_BUS_USER_COUNT; i++) {
        if (!cli->json && !acl && !secrets->saved)
            printf("user %s %s\n", kiln_bus_user_names[i], secrets->users[i].rules);
        json_array_append_new(
            lines, json_sprintf("user %s %s", kiln_bus_user_names[i], secrets->users[i].rules));
    }
    kiln_say(cli, "%s made; %s has a settings file for each user",
             KILN_COUNT((uint64_t)made, "database role"), secrets->dir);
    if (acl)
        kiln_say(cli, "%s has the Redis users%s", acl,
                 secrets->set ? ""
                              : "; Redis reads it with `redis-cli ACL LOAD` or when it starts");
    else if (!secrets->saved)
        kiln_say(cli, "Redis %s; add the lines above to its ACL file (aclfile in redis.conf)",
                 secrets->set ? "keeps the users only until it restarts" : "was not changed");
    else
        kiln_say(cli, "Redis has the users, also in its ACL file");
    int status =
        cli->json
            ? kiln_print_json(cli, json_pack("{s:i, s:s, s:b, s:b, s:O}", "made", made, "secrets",
                                             secrets->dir, "redis_set", secrets->set, "redis_saved",
                                             secrets->saved, "redis_users", lines))
            : 0;
    json_decref(lines);
    return status;
}

int kiln_roles_and_users(struct kiln_cli *cli, const char *dir, const char *acl)
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
    if (rc == 0 && acl)
        rc = write_acl(&secrets, acl, &err);
    if (rc)
        return kiln_report(cli, &err);
    if (dir)
        return say_users(&secrets, made, acl);
    kiln_say(cli,
             "%s made, without passwords; --secrets DIR also makes passwords, Redis users and "
             "settings files",
             KILN_COUNT((uint64_t)made, "database role"));
    return cli->json ? kiln_print_json(cli, json_pack("{s:i}", "made", made)) : 0;
}
