/* tokens.c - see tokens.h. */
#include "scheduler/router/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "scheduler/router/map.h"
#include "scheduler/router/word_lists.h"
#include "schemas/room.h"
#include "schemas/text/utf8.h"
#include "schemas/words/marks.h"
#include "schemas/words/words.h"

/* Characters of three bytes that are Han: traditional ones become simplified ones of equal length.
 */
static void simplify(char *text, size_t len)
{
    for (size_t i = 0; i + 2 < len; i++) {
        const unsigned char *s = (const unsigned char *)text + i;
        if (s[0] < 0xe4 || s[0] > 0xe9)
            continue;
        const uint32_t code = (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
        const uint32_t other = kiln_word_simplified(code);
        if (other != code)
            (void)kiln_utf8_encode(other, text + i);
        i += 2;
    }
}

/* "Néon" is "neon": letters of Western Europe without their marks. */
static size_t without_accents(char *text, size_t len)
{
    static const char plain[] = "aaaaaa ceeeeiiii nooooo ouuuuy y"; /* U+00E0 ... U+00FF */
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        const unsigned char next = i + 1 < len ? (unsigned char)text[i + 1] : 0;
        const char letter = c == 0xc3 && next >= 0xa0 ? plain[next - 0xa0] : ' ';
        text[to++] = letter == ' ' ? text[i] : letter;
        i += letter != ' ';
    }
    return to;
}

static bool ends(const char *word, size_t len, const char *with)
{
    const size_t tail = strlen(with);
    return len > tail && memcmp(word + len - tail, with, tail) == 0;
}

/* The first British part of a word of a to z. */
static void spell(char *word, size_t *len)
{
    for (size_t at = 0; at + 1 < *len; at++) {
        const char(*known)[2][12] = kiln_word_spellings[word[at] - 'a'];
        for (; (*known)[0][0]; known++) {
            const char *from = (*known)[0], *to = (*known)[1];
            if (from[1] != word[at + 1])
                continue;
            const size_t from_len = strlen(from), to_len = strlen(to);
            if (from_len > *len - at || memcmp(word + at, from, from_len) != 0)
                continue;
            memcpy(word + at, to, to_len); /* never longer */
            memmove(word + at + to_len, word + at + from_len, *len - at - from_len);
            *len -= from_len - to_len;
            return;
        }
    }
}

size_t kiln_route_british(const char *word, size_t len, char *out)
{
    for (size_t letter = 0; letter < 26; letter++)
        for (const char(*known)[2][12] = kiln_word_spellings[letter]; (*known)[0][0]; known++) {
            const char *from = (*known)[1], *to = (*known)[0];
            const char *at = memmem(word, len, from, strlen(from));
            if (!at)
                continue;
            const size_t before = (size_t)(at - word), rest = len - before - strlen(from);
            memcpy(out, word, before);
            memcpy(out + before, to, strlen(to));
            memcpy(out + before + strlen(to), at + strlen(from), rest);
            return before + strlen(to) + rest;
        }
    return 0;
}

static size_t without_plural(char *word, size_t len)
{
    if (len < 4 || word[len - 1] != 's' || ends(word, len, "ss") || ends(word, len, "us") ||
        ends(word, len, "is"))
        return len;
    if (ends(word, len, "ies") && len > 4) {
        word[len - 3] = 'y';
        return len - 2;
    }
    if (ends(word, len, "xes") || ends(word, len, "ches") || ends(word, len, "shes") ||
        ends(word, len, "sses"))
        return len - 2;
    return len - 1;
}

static size_t without_ending(const char *word, size_t len)
{
    size_t stem = len;
    if (len >= 7 && ends(word, len, "ing"))
        stem = len - 3;
    else if (len >= 6 && ends(word, len, "ed"))
        stem = len - 2;
    if (stem < len && word[stem - 1] == word[stem - 2] && !strchr("sl", word[stem - 1]))
        stem--;
    return stem == len && len >= 5 && word[len - 1] == 'e' ? len - 1 : stem;
}

static bool plain_word(const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (word[i] < 'a' || word[i] > 'z')
            return false;
    return len < 100;
}

struct adding {
    struct kiln_route_tokens *tokens;
    const char *folded;
    uint8_t mark;
};

static bool letters_room(struct kiln_route_tokens *tokens, size_t more)
{
    if (tokens->letters_len + more <= tokens->letters_room)
        return true;
    const size_t room = (tokens->letters_len + more) * 2;
    char *letters = realloc(tokens->letters, room);
    if (letters) {
        tokens->letters = letters;
        tokens->letters_room = room;
    }
    return letters != NULL;
}

static void add_word(void *arg, const struct kiln_word *word)
{
    const struct adding *adding = arg;
    struct kiln_route_tokens *tokens = adding->tokens;
    if (word->kind == KILN_WORD_END || tokens->failed)
        return;
    /* The s of "child's". */
    if (word->len == 1 && word->text[0] == 's' && word->text > adding->folded &&
        (word->text[-1] == '\'' || (unsigned char)word->text[-1] == 0x99))
        return;
    struct kiln_route_token *at = tokens->at;
    if (!letters_room(tokens, word->len) ||
        !(at = kiln_room(at, tokens->count, &tokens->room, sizeof *at))) {
        tokens->failed = true;
        return;
    }
    tokens->at = at;
    struct kiln_route_token *token = &at[tokens->count++];
    *token = (struct kiln_route_token){
        .clause = tokens->clauses, .mark = adding->mark, .text = (uint32_t)tokens->letters_len};
    char *letters = tokens->letters + tokens->letters_len;
    size_t len = word->len;
    memcpy(letters, word->text, len);
    if (word->kind == KILN_WORD_PLAIN && plain_word(letters, len)) {
        if (len > 3)
            spell(letters, &len);
        len = without_plural(letters, len);
        token->length = (uint8_t)len;
        token->form = kiln_map_hash(letters, len);
        const size_t stem = without_ending(letters, len);
        token->stem = stem == len ? token->form : kiln_map_hash(letters, stem);
    } else {
        token->form = token->stem = kiln_map_hash(letters, len);
    }
    tokens->letters_len += len;
}

/* Appends to what is said; without memory the tokens have failed. */
static void keep(struct kiln_route_tokens *tokens, const char *text, size_t len)
{
    if (!tokens->keep_clean)
        return;
    if (tokens->clean_len + len > tokens->clean_room) {
        const size_t room = (tokens->clean_len + len) * 2;
        char *clean = realloc(tokens->clean, room);
        tokens->failed |= !clean;
        if (!clean)
            return;
        tokens->clean = clean;
        tokens->clean_room = room;
    }
    memcpy(tokens->clean + tokens->clean_len, text, len);
    tokens->clean_len += len;
}

static void end_clause(struct kiln_route_tokens *tokens)
{
    tokens->clauses++;
    keep(tokens, "\n", 1);
}

/* First bytes of what separates clauses: 1, or WIDE for a character of several bytes. */
#define WIDE 2
static const unsigned char separators[256] = {
    [','] = 1, ['.'] = 1, [';'] = 1, [':'] = 1,     ['!'] = 1,     ['?'] = 1,    ['('] = 1,
    [')'] = 1, ['['] = 1, [']'] = 1, ['{'] = 1,     ['}'] = 1,     ['|'] = 1,    ['\n'] = 1,
    ['/'] = 1, ['"'] = 1, ['-'] = 1, [0xe2] = WIDE, [0xe3] = WIDE, [0xef] = WIDE};

/* The length of what separates clauses at text[0..len), or 0.  A hyphen does between spaces. */
static size_t separator(const char *text, size_t len, bool behind_space)
{
    static const char wide[][4] = {"，", "。", "、", "；", "：", "！", "？", "…", "—", "–"};
    if (text[0] == '-')
        return behind_space && len > 1 && text[1] == ' ';
    if (separators[(unsigned char)text[0]] != WIDE)
        return separators[(unsigned char)text[0]];
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (len >= 3 && memcmp(text, wide[i], 3) == 0)
            return 3;
    return 0;
}

/* Clause by clause, and within a clause the stretches of one mark. */
static void split(struct adding *adding, const char *folded, size_t len, const unsigned char *marks)
{
    uint32_t position = 0;
    size_t start = 0;
    for (size_t at = 0; at <= len;) {
        while (at < len && !separators[(unsigned char)folded[at]] && marks[at] == marks[start])
            at++;
        const size_t end =
            at < len ? separator(folded + at, len - at, at > 0 && folded[at - 1] == ' ') : 1;
        if (!end && marks[at] == marks[start]) {
            at++;
            continue;
        }
        if (at > start) {
            adding->mark = marks[start];
            kiln_words_each(folded + start, at - start, &position, add_word, adding);
            if (adding->mark == KILN_MARK_NONE)
                keep(adding->tokens, folded + start, at - start);
        }
        if (end > 0)
            end_clause(adding->tokens);
        start = at = at + end;
    }
}

int kiln_route_tokens_add(struct kiln_route_tokens *tokens, const char *text, size_t len,
                          bool marked, struct kiln_error *err)
{
    char *folded;
    int rc = kiln_words_fold(text, len, &folded, &len, err);
    if (rc)
        return rc;
    if (!kiln_utf8_ascii(folded, len)) {
        simplify(folded, len);
        len = without_accents(folded, len);
    }
    if (len + 1 > tokens->marks_room) {
        free(tokens->marks);
        tokens->marks = malloc(len + 1);
        tokens->marks_room = tokens->marks ? len + 1 : 0;
    }
    if (tokens->marks) {
        if (marked)
            kiln_words_marks(folded, len, tokens->marks);
        else
            memset(tokens->marks, KILN_MARK_NONE, len);
        tokens->marks[len] = KILN_MARK_NONE;
        tokens->tags |= marked && memmem(folded, len, "<lora:", 6) != NULL;
        end_clause(tokens);
        split(&(struct adding){tokens, folded, 0}, folded, len, tokens->marks);
    }
    tokens->failed |= !tokens->marks;
    free(folded);
    return tokens->failed ? kiln_fail(err, KILN_NO_MEMORY, "no memory for the words of a prompt")
                          : 0;
}

bool kiln_route_tokens_join(struct kiln_route_tokens *tokens)
{
    struct kiln_route_token *at = tokens->at;
    if (tokens->count != 2 || !at[0].length || !at[1].length)
        return false;
    char *letters = tokens->letters + at[0].text;
    memmove(letters + at[0].length, tokens->letters + at[1].text, at[1].length);
    at[0].length = (uint8_t)(at[0].length + at[1].length);
    at[0].form = at[0].stem = kiln_map_hash(letters, at[0].length);
    tokens->count = 1;
    return true;
}

void kiln_route_tokens_clear(struct kiln_route_tokens *tokens)
{
    tokens->count = tokens->letters_len = tokens->clean_len = 0;
    tokens->clauses = 0;
    tokens->tags = tokens->failed = false;
}

void kiln_route_tokens_release(struct kiln_route_tokens *tokens)
{
    free(tokens->at);
    free(tokens->letters);
    free(tokens->marks);
    free(tokens->clean);
    *tokens = (struct kiln_route_tokens){0};
}

uint64_t kiln_route_tokens_phrase(const struct kiln_route_token *at, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i].form) * 0x9e3779b97f4a7c15u;
    return hash ? hash : 1;
}
