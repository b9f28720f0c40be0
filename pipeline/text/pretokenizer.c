/* pretokenizer.c - splits with PCRE2 as the reference does with Oniguruma.
 *
 * Where the dialects differ, the pattern is rewritten before it is compiled:
 *     \s   in Oniguruma is Unicode's White_Space; in PCRE2 it also holds U+180E, which was taken
 *          out of White_Space long ago.  So \s and \S become explicit sets.
 *     \w \d \b and their like have other definitions too and are refused: Qwen's pattern has none.
 * \p{L} and \p{N} follow the Unicode version of the library: 14 in PCRE2 10.40 to 10.42 and in the
 * reference.  A newer library knows some letters more, of scripts that were unassigned then.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pipeline/text/pretokenizer.h"

#include <ctype.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_MAX 4096
#define MATCH_LIMIT 5000000 /* backtracking steps of one match: a bound on hostile patterns */
#define DEPTH_LIMIT 100000

#define SPACES                                                                                     \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"

const char kiln_qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct kiln_pretokenizer {
    pcre2_code *code;
    pcre2_match_context *limits;
};

/* --- the pattern ---------------------------------------------------------------------------- */

/* The PCRE2 form of an escape, or NULL if it may mean something else. */
static const char *rewrite_escape(char c, bool in_class)
{
    switch (c) {
    case 's':
        return in_class ? SPACES : "[" SPACES "]";
    case 'S':
        return in_class ? NULL : "[^" SPACES "]";
    case 'r':
        return "\\r";
    case 'n':
        return "\\n";
    case 't':
        return "\\t";
    case 'p':
        return "\\p";
    case 'P':
        return "\\P";
    default:
        return NULL;
    }
}

static int rewrite_pattern(const char *pattern, char *out, size_t size, struct kiln_error *err)
{
    size_t at = 0;
    bool in_class = false;
    for (const char *p = pattern; *p; p++) {
        char plain[3] = {*p, '\0', '\0'};
        const char *piece = plain;
        if (*p == '\\') {
            piece = rewrite_escape(*++p, in_class);
            if (!piece && (isalnum((unsigned char)*p) || !*p))
                return kiln_fail(err, KILN_UNSUPPORTED,
                                 "the split pattern has \\%c at byte %zu, which is not supported",
                                 *p ? *p : ' ', (size_t)(p - pattern) - 1);
            plain[0] = '\\';
            plain[1] = *p;
            piece = piece ? piece : plain;
        } else if (*p == '[') {
            if (in_class)
                return kiln_fail(err, KILN_UNSUPPORTED,
                                 "the split pattern has a set in a set at byte %zu",
                                 (size_t)(p - pattern));
            in_class = true;
        } else if (*p == ']') {
            in_class = false;
        }
        if (at + strlen(piece) >= size)
            return kiln_fail(err, KILN_UNSUPPORTED, "the split pattern is longer than %d bytes",
                             PATTERN_MAX);
        at += (size_t)snprintf(out + at, size - at, "%s", piece);
    }
    out[at] = '\0';
    return 0;
}

int kiln_pretokenizer_new(const char *pattern, struct kiln_pretokenizer **ret,
                          struct kiln_error *err)
{
    char rewritten[PATTERN_MAX], reason[128];
    int number;
    PCRE2_SIZE offset;
    int rc = rewrite_pattern(pattern, rewritten, sizeof rewritten, err);
    if (rc)
        return rc;
    struct kiln_pretokenizer *p = calloc(1, sizeof *p);
    if (!p)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory for a pre-tokenizer");
    p->limits = pcre2_match_context_create(NULL);
    p->code =
        pcre2_compile((PCRE2_SPTR)rewritten, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &number, &offset, NULL);
    if (!p->code || !p->limits) {
        kiln_pretokenizer_free(p);
        pcre2_get_error_message(number, (PCRE2_UCHAR *)reason, sizeof reason);
        return kiln_fail(err, KILN_CORRUPT, "the split pattern, byte %zu: %s", (size_t)offset,
                         reason);
    }
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(p->limits, DEPTH_LIMIT);
    /* Without a JIT for this machine the interpreter does the same, slower. */
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    *ret = p;
    return 0;
}

void kiln_pretokenizer_free(struct kiln_pretokenizer *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    free(p);
}

/* --- splitting ------------------------------------------------------------------------------ */

static int split_with(const struct kiln_pretokenizer *p, pcre2_match_data *match,
                      const uint8_t *text, size_t len, kiln_word_fn *word, void *ctx,
                      struct kiln_error *err)
{
    size_t done = 0; /* all before it was handed to word */
    size_t at = 0;   /* where the next match may begin */
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(match);
    while (at < len) {
        char reason[128];
        int rc = 0, n = pcre2_match(p->code, text, len, at, PCRE2_NO_UTF_CHECK, match, p->limits);
        /* The compiled code has 32 KiB of stack; a match that needs more is run again by the
         * interpreter, which takes its memory from the heap. */
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = pcre2_match(p->code, text, len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match,
                            p->limits);
        if (n == PCRE2_ERROR_NOMATCH)
            break;
        if (n < 0) {
            pcre2_get_error_message(n, (PCRE2_UCHAR *)reason, sizeof reason);
            return kiln_fail(err, KILN_BAD_INPUT, "splitting the text at byte %zu: %s", at, reason);
        }
        if (range[1] == range[0]) { /* an empty match is no word: look from the next character */
            at = range[1] + 1;
            while (at < len && (text[at] & 0xc0) == 0x80)
                at++;
            continue;
        }
        if (range[0] > done)
            rc = word(ctx, text + done, range[0] - done, err);
        if (!rc)
            rc = word(ctx, text + range[0], range[1] - range[0], err);
        if (rc)
            return rc;
        done = at = range[1];
    }
    return done < len ? word(ctx, text + done, len - done, err) : 0;
}

int kiln_pretokenizer_split(const struct kiln_pretokenizer *p, const uint8_t *text, size_t len,
                            kiln_word_fn *word, void *ctx, struct kiln_error *err)
{
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (!match)
        return kiln_fail(err, KILN_NO_MEMORY, "no memory to split a text");
    int rc = split_with(p, match, text, len, word, ctx, err);
    pcre2_match_data_free(match);
    return rc;
}
