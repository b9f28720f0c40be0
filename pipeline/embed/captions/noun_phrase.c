/* noun_phrase.c - see noun_phrase.h. */
#include "pipeline/embed/captions/noun_phrase.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define WORDS_MAX 64
#define ATTRIBUTES_MAX 6 /* more of them are a sentence, not a description */

struct word {
    const char *at;
    size_t len;  /* without the mark */
    size_t mark; /* bytes of punctuation behind it */
};

static const char *const forms[] = {"round",    "circular", "rounded", "curved", "angular",
                                    "cornered", "pointed",  "pointy",  "spiky",  NULL};
/* Where a description ends. */
static const char *const others[] = {
    "a",     "an",   "the",   "in",    "at",     "on",    "of",  "by",     "with",   "without",
    "near",  "over", "under", "above", "below",  "from",  "for", "behind", "beside", "against",
    "among", "like", "that",  "which", "is",     "are",   "has", "to",     "or",     "not",
    "no",    "but",  "next",  "as",    "during", "while", NULL};

static bool is(const struct word *word, const char *text)
{
    return word->len == strlen(text) && strncasecmp(word->at, text, word->len) == 0;
}

static bool is_one_of(const struct word *word, const char *const *list)
{
    while (*list && !is(word, *list))
        list++;
    return *list;
}

/* The words between spaces; 0 for more than WORDS_MAX. */
static size_t split(const char *text, size_t len, struct word words[WORDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < len;) {
        const size_t from = i;
        while (i < len && text[i] != ' ')
            i++;
        size_t end = i;
        while (end > from && memchr(",.;:!?", text[end - 1], 6))
            end--;
        if (i > from && count == WORDS_MAX)
            return 0;
        if (i > from)
            words[count++] = (struct word){text + from, end - from, i - end};
        i++;
    }
    return count;
}

/* How many words from here stand for any thing: "something", "a thing that is", ...; 0: none. */
static size_t match_pronoun(const struct word *words, size_t count)
{
    size_t used = 0;
    if (is(&words[0], "something") || is(&words[0], "anything"))
        used = 1;
    else if (count > 3 && is(&words[0], "a") && is(&words[1], "thing"))
        used = 2;
    const bool says_is = used > 0 && count > used + 1 &&
                         (is(&words[used], "that") || is(&words[used], "which")) &&
                         is(&words[used + 1], "is");
    if (says_is)
        return used + 2;
    return used == 1 ? 1 : 0;
}

/* The attributes from here, `and` among them; 0 if this is no description. */
static size_t count_attributes(const struct word *words, size_t count)
{
    size_t n = 0;
    while (n < count && n <= ATTRIBUTES_MAX && !is_one_of(&words[n], others))
        if (words[n++].mark > 0)
            break;
    const bool ends = n > 0 && n <= ATTRIBUTES_MAX;
    return ends && !is(&words[0], "and") && !is(&words[n - 1], "and") ? n : 0;
}

struct writer {
    char *out;
    size_t len;
};

static void put(struct writer *w, const char *text, size_t len)
{
    if (w->len > 0)
        w->out[w->len++] = ' ';
    memcpy(w->out + w->len, text, len);
    w->len += len;
}

static void put_words(struct writer *w, const struct word *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(w, words[i].at, words[i].len + words[i].mark);
}

static void put_attributes(struct writer *w, const struct word *words, size_t count, bool form)
{
    for (size_t i = 0; i < count; i++)
        if (!is(&words[i], "and") && is_one_of(&words[i], forms) == form)
            put(w, words[i].at, words[i].len);
}

size_t kiln_noun_phrase(const char *text, size_t len, char out[KILN_NOUN_PHRASE_MAX])
{
    static const char article[] = "a", noun[] = "thing";
    struct word words[WORDS_MAX];
    struct writer w = {out, 0};
    if (len + sizeof article + sizeof noun > KILN_NOUN_PHRASE_MAX)
        return 0;
    const size_t count = split(text, len, words);
    for (size_t i = 0; i < count; i++) {
        const size_t begin = i + match_pronoun(words + i, count - i);
        const size_t n = begin > i ? count_attributes(words + begin, count - begin) : 0;
        if (n == 0)
            continue;
        put_words(&w, words, i);
        put(&w, article, sizeof article - 1);
        put_attributes(&w, words + begin, n, false);
        put_attributes(&w, words + begin, n, true);
        put(&w, noun, sizeof noun - 1);
        const struct word *last = &words[begin + n - 1];
        memcpy(w.out + w.len, last->at + last->len, last->mark);
        w.len += last->mark;
        put_words(&w, words + begin + n, count - begin - n);
        return w.len;
    }
    return 0;
}
