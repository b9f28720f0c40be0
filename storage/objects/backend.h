/* backend.h - the functions that a backend of store.h provides; private to storage/.
 *
 * store.c has checked every key and hashed every body before a backend sees it.
 * A backend puts struct kiln_store first in its own struct.
 */
#ifndef KILN_OBJECTSTORE_BACKEND_H
#define KILN_OBJECTSTORE_BACKEND_H

#include "storage/objects/store.h"

struct kiln_store_ops {
    /* Puts those whose code is still 0 and sets code and error of each. */
    void (*put)(struct kiln_store *store, struct kiln_put *puts, size_t count);
    int (*get)(struct kiln_store *store, const char *key, size_t max, void **ret_data,
               size_t *ret_size, struct kiln_error *err);
    int (*head)(struct kiln_store *store, const char *key, uint64_t *ret_size,
                struct kiln_error *err);
    int (*remove)(struct kiln_store *store, const char *key, struct kiln_error *err);
    /* Removes those whose code is still 0, as put does; NULL: one by one. */
    void (*remove_many)(struct kiln_store *store, struct kiln_deletion *deletions, size_t count);
    int (*list)(struct kiln_store *store, const char *prefix, kiln_store_each *each, void *arg,
                struct kiln_error *err);
    /* For servers of pictures, from any thread; NULL: this backend has the other way. */
    int (*open)(struct kiln_store *store, const char *key, int *ret_fd, uint64_t *ret_size,
                struct kiln_error *err);
    int (*presign)(struct kiln_store *store, const char *key, int64_t time_s, uint32_t expires_s,
                   char **ret, struct kiln_error *err);
    const char *(*origin)(const struct kiln_store *store);
    int (*reach)(struct kiln_store *store, struct kiln_error *err);
    void (*close)(struct kiln_store *store); /* frees the backend's struct, not the url */
};

struct kiln_store {
    const struct kiln_store_ops *ops;
    char *url;
    bool once; /* gets are one try each */
};

/* Opens a store; location: what follows the scheme of its URL. */
typedef int kiln_store_opener(const struct kiln_config *config, const char *location,
                              struct kiln_store **ret, struct kiln_error *err);
/* location: the directory, which is made. */
int kiln_store_open_file(const struct kiln_config *config, const char *location,
                         struct kiln_store **ret, struct kiln_error *err) KILN_MUST_CHECK;
/* location: "bucket/prefix". */
int kiln_store_open_s3(const struct kiln_config *config, const char *location,
                       struct kiln_store **ret, struct kiln_error *err) KILN_MUST_CHECK;

/* --- backend.c ------------------------------------------------------------------------------- */
/* The bytes that a key may have. */
#define KILN_KEY_LETTERS                                                                           \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"                                         \
    "0123456789/._-"
/* KILN_BAD_INPUT unless key keeps the rule of store.h. */
int kiln_store_check_key(const char *key, struct kiln_error *err) KILN_MUST_CHECK;
/* Fails one deletion: code and text, cut to its room. */
void kiln_deletion_fail(struct kiln_deletion *deletion, const struct kiln_error *err);
/* Fails one put: code and text, cut to its room. */
void kiln_put_fail(struct kiln_put *put, const struct kiln_error *err);

#endif
