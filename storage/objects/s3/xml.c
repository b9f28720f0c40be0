/* xml.c - see xml.h.
 *
 * The scanner gives one event at a time (an element opens, closes, or text lies between) and
 * keeps the names of the open elements, so that a closing tag must match its opening one.
 * Above it a table of fields says which texts of a document go where.
 */
#include "storage/objects/s3/xml.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "schemas/text/utf8.h"

#define DEPTH_MAX 8

enum event { OPENED, CLOSED, TEXT, ENDED, BROKEN };

struct name {
    const char *at;
    size_t len;
};

struct scanner {
    const char *at, *end;
    struct name open[DEPTH_MAX];
    int depth;
    struct name closed; /* of a CLOSED event */
    bool empty;         /* <X/>: its CLOSED event is still due */
    bool any;           /* an element was seen */
    const char *text;   /* of a TEXT event, still escaped */
    size_t text_len;
};

/* Whether the name is exactly this text; prefixes of namespaces are not looked through. */
static bool is(struct name name, const char *text)
{
    return name.len == strlen(text) && memcmp(name.at, text, name.len) == 0;
}

/* Whether the innermost open elements are parent/child. */
static bool inside(const struct scanner *s, const char *parent, const char *child)
{
    return s->depth >= 2 && is(s->open[s->depth - 2], parent) && is(s->open[s->depth - 1], child);
}

static bool name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ':' ||
           c == '-' || c == '_' || c == '.';
}

/* The name at s->at, of no length if there is none. */
static struct name read_name(struct scanner *s)
{
    struct name name = {s->at, 0};
    while (s->at < s->end && name_char(*s->at))
        s->at++;
    name.len = (size_t)(s->at - name.at);
    return name;
}

/* To the tag's '>', over attributes whose quoted values may hold one; false: there is none. */
static bool skip_attributes(struct scanner *s)
{
    char quote = '\0';
    for (; s->at < s->end; s->at++) {
        if (quote)
            quote = *s->at == quote ? '\0' : quote;
        else if (*s->at == '"' || *s->at == '\'')
            quote = *s->at;
        else if (*s->at == '>')
            return true;
        else if (*s->at == '<')
            return false;
    }
    return false;
}

static enum event close_element(struct scanner *s)
{
    s->closed = s->open[--s->depth];
    s->empty = false;
    return CLOSED;
}

/* s->at is behind '<'. */
static enum event read_tag(struct scanner *s)
{
    bool closing = s->at < s->end && *s->at == '/';
    s->at += closing;
    struct name name = read_name(s);
    if (name.len == 0 || (s->any && !closing && s->depth == 0) || !skip_attributes(s))
        return BROKEN;
    s->empty = !closing && s->at[-1] == '/';
    s->at++;
    if (closing) {
        struct name top = s->depth ? s->open[s->depth - 1] : (struct name){0};
        if (top.len != name.len || memcmp(top.at, name.at, name.len) != 0)
            return BROKEN;
        return close_element(s);
    }
    if (s->depth == DEPTH_MAX)
        return BROKEN;
    s->any = true;
    s->open[s->depth++] = name;
    return OPENED;
}

/* White space is all that may stand outside the root element. */
static bool blank(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", at[i]) || at[i] == '\0')
            return false;
    return true;
}

/* <?xml ... ?> in front of everything, and nowhere else. */
static bool skip_prolog(struct scanner *s)
{
    if ((size_t)(s->end - s->at) >= 3 && memcmp(s->at, "\xEF\xBB\xBF", 3) == 0)
        s->at += 3;
    if (s->end - s->at < 5 || memcmp(s->at, "<?xml", 5) != 0)
        return true;
    for (; s->end - s->at >= 2; s->at++)
        if (s->at[0] == '?' && s->at[1] == '>') {
            s->at += 2;
            return true;
        }
    return false;
}

/* The next event.  Text that is cut off by the end of input is no text but BROKEN. */
static enum event next(struct scanner *s)
{
    if (s->empty)
        return close_element(s);
    const char *start = s->at;
    while (s->at < s->end && *s->at != '<')
        s->at++;
    size_t len = (size_t)(s->at - start);
    if (s->depth == 0 && !blank(start, len))
        return BROKEN;
    if (s->depth > 0 && len > 0 && s->at < s->end) {
        s->text = start;
        s->text_len = len;
        return TEXT;
    }
    if (s->at == s->end)
        return s->depth == 0 && s->any ? ENDED : BROKEN;
    s->at++;
    return read_tag(s);
}

/* Decodes "&...;" at text into out (at most 4 bytes); returns bytes written, 0 if it is bad. */
static size_t read_entity(const char *text, size_t len, size_t *ret_used, char out[4])
{
    static const struct {
        const char *name;
        char value;
    } named[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        size_t n = strlen(named[i].name);
        if (len >= n && memcmp(text, named[i].name, n) == 0) {
            out[0] = named[i].value;
            *ret_used = n;
            return 1;
        }
    }
    if (len < 4 || text[1] != '#')
        return 0;
    bool hex = text[2] == 'x';
    unsigned long value = 0;
    size_t i = hex ? 3 : 2, digits = i;
    for (; i < len && text[i] != ';' && i < 10; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'                        ? c - '0'
                    : hex && (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                : -1;
        if (digit < 0)
            return 0;
        value = value * (hex ? 16 : 10) + (unsigned long)digit;
    }
    if (i == digits || i >= len || text[i] != ';' || value == 0 || value > 0x10ffff ||
        (value >= 0xd800 && value < 0xe000))
        return 0;
    *ret_used = i + 1;
    return kiln_utf8_encode((unsigned)value, out);
}

/* Appends the decoded text; false if it is bad or does not fit (then as much as fits is there). */
static bool add_text(const struct scanner *s, char *out, size_t size)
{
    size_t n = strlen(out);
    for (size_t i = 0; i < s->text_len;) {
        char piece[4] = {s->text[i]};
        size_t used = 1, len = 1;
        if (s->text[i] == '&' &&
            (len = read_entity(s->text + i, s->text_len - i, &used, piece)) == 0)
            return false;
        if (piece[0] == '\0' || n + len >= size)
            return false;
        memcpy(out + n, piece, len);
        n += len;
        out[n] = '\0';
        i += used;
    }
    return true;
}

/* --- documents -------------------------------------------------------------------------------- */

/* A text of a document: the two elements that it stands in, and where it goes. */
struct field {
    const char *parent, *child;
    char *out;
    size_t size;
    bool cut; /* one that does not fit or does not decode is no error */
};

struct document {
    const char *what;       /* it is, in an error */
    const char *root;       /* NULL: any */
    struct field fields[6]; /* parent NULL after the last */
    const char *item;       /* an element below the root, or NULL */
    int (*end_item)(void *arg, struct kiln_error *err);
    void *arg;
};

/* Puts a text where its elements say; texts of other elements are passed by. */
static bool take_text(const struct scanner *s, const struct field *field)
{
    while (field->parent && !inside(s, field->parent, field->child))
        field++;
    return !field->parent || add_text(s, field->out, field->size) || field->cut;
}

static int read_document(const struct document *d, const char *xml, size_t len,
                         struct kiln_error *err)
{
    struct scanner s = {.at = xml, .end = xml + len};
    const char *bad = skip_prolog(&s) ? NULL : "is cut short";
    while (!bad) {
        enum event event = next(&s);
        int code = KILN_OK;
        if (event == ENDED)
            return KILN_OK;
        if (event == BROKEN)
            bad = "is not well-formed XML, or is cut short";
        else if (event == OPENED && s.depth == 1 && d->root && !is(s.open[0], d->root))
            bad = "is another document";
        else if (event == TEXT && !take_text(&s, d->fields))
            bad = "has a text that does not fit or does not decode";
        else if (event == CLOSED && s.depth == 1 && d->item && is(s.closed, d->item))
            code = d->end_item(d->arg, err);
        if (code)
            return code;
    }
    return kiln_fail(err, KILN_PROTOCOL, "%s %s", d->what, bad);
}

void kiln_s3_parse_error(const char *xml, size_t len, struct kiln_s3_error *ret)
{
    const struct document error = {
        .what = "an error",
        .fields = {{"Error", "Code", ret->code, sizeof ret->code, true},
                   {"Error", "Message", ret->message, sizeof ret->message, true}},
    };
    *ret = (struct kiln_s3_error){0};
    (void)!read_document(&error, xml, len, NULL); /* what was read before its end counts */
}

/* --- a page of a listing ---------------------------------------------------------------------- */

#define LISTING "the server's object listing"

/* The current entry, and numbers that are still text. */
struct page_reader {
    struct kiln_s3_entry entry;
    char size[24], modified[32], truncated[8];
    kiln_s3_each *each;
    void *arg;
};

/* "2009-10-12T17:50:30.000Z"; the fraction may be missing. */
static bool read_time(const char *text, int64_t *ret)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || (*rest != '.' && *rest != 'Z'))
        return false;
    *ret = timegm(&tm);
    return true;
}

/* </Contents>: the entry must be whole. */
static int end_entry(void *arg, struct kiln_error *err)
{
    struct page_reader *r = arg;
    char *end;
    r->entry.size = strtoull(r->size, &end, 10);
    if (!r->entry.key[0] || r->size[0] < '0' || r->size[0] > '9' || *end ||
        !read_time(r->modified, &r->entry.modified_s))
        return kiln_fail(err, KILN_PROTOCOL, LISTING " has an entry without key, size or time");
    int code = r->each(r->arg, &r->entry);
    r->entry.key[0] = r->size[0] = r->modified[0] = '\0';
    return code;
}

int kiln_s3_parse_list(const char *xml, size_t len, kiln_s3_each *each, void *arg,
                       struct kiln_s3_page *ret, struct kiln_error *err)
{
    struct page_reader r = {.each = each, .arg = arg};
    const struct document listing = {
        .what = LISTING,
        .root = "ListBucketResult",
        .fields = {{"Contents", "Key", r.entry.key, sizeof r.entry.key, false},
                   {"Contents", "Size", r.size, sizeof r.size, false},
                   {"Contents", "LastModified", r.modified, sizeof r.modified, false},
                   {"ListBucketResult", "IsTruncated", r.truncated, sizeof r.truncated, false},
                   {"ListBucketResult", "NextContinuationToken", ret->token, sizeof ret->token,
                    false}},
        .item = "Contents",
        .end_item = end_entry,
        .arg = &r,
    };
    *ret = (struct kiln_s3_page){0};
    int code = read_document(&listing, xml, len, err);
    if (code)
        return code;
    ret->truncated = strcmp(r.truncated, "true") == 0;
    if (!ret->truncated && strcmp(r.truncated, "false") != 0)
        return kiln_fail(err, KILN_PROTOCOL, LISTING " does not say whether it is complete");
    if (ret->truncated && !ret->token[0])
        return kiln_fail(err, KILN_PROTOCOL,
                         LISTING " is incomplete and has no token for the rest");
    return KILN_OK;
}

/* --- the answer to a multi-object delete ------------------------------------------------------ */

#define DELETION "the server's answer to a deletion of many"

struct deletion_reader {
    struct kiln_s3_refusal refusal;
    kiln_s3_each_refusal *each;
    void *arg;
};

static int end_refusal(void *arg, struct kiln_error *err)
{
    struct deletion_reader *r = arg;
    if (!r->refusal.key[0] || !r->refusal.code[0])
        return kiln_fail(err, KILN_PROTOCOL, DELETION " has an error without key or code");
    int code = r->each(r->arg, &r->refusal);
    r->refusal = (struct kiln_s3_refusal){0};
    return code;
}

int kiln_s3_parse_deleted(const char *xml, size_t len, kiln_s3_each_refusal *each, void *arg,
                          struct kiln_error *err)
{
    struct deletion_reader r = {.each = each, .arg = arg};
    struct kiln_s3_refusal *refusal = &r.refusal;
    const struct document answer = {
        .what = DELETION,
        .root = "DeleteResult",
        .fields = {{"Error", "Key", refusal->key, sizeof refusal->key, false},
                   {"Error", "Code", refusal->code, sizeof refusal->code, false},
                   {"Error", "Message", refusal->message, sizeof refusal->message, true}},
        .item = "Error",
        .end_item = end_refusal,
        .arg = &r,
    };
    return read_document(&answer, xml, len, err);
}
