/* marks.c - see marks.h. */
#include "schemas/words/marks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "schemas/text/utf8.h"

#define SCOPE_WORDS 4 /* that a denial reaches, articles not counted */
#define SCOPE_CHARS 8 /* of a script without spaces */
#define QUOTE_MAX 400 /* bytes between two apostrophes, where the search for the second ends */

struct text {
    const char *at;
    size_t len;
    unsigned char *marks;
};

/* a to z, 0 to 9, and every byte of a longer character. */
static inline bool letter(char c)
{
    static const uint64_t letters[] = {0x03ff000000000000u, 0x07fffffe00000000u, UINT64_MAX,
                                       UINT64_MAX};
    return letters[(unsigned char)c / 64] >> ((unsigned char)c % 64) & 1;
}

static bool starts(const struct text *t, size_t at, const char *with)
{
    if (t->at[at] != with[0])
        return false;
    const size_t len = strlen(with);
    return len <= t->len - at && memcmp(t->at + at, with, len) == 0;
}

/* The length of the first of the words that stands at `at`, 0 for none. */
static size_t any_of(const struct text *t, size_t at, const char *const *words)
{
    for (; *words; words++)
        if (starts(t, at, *words))
            return strlen(*words);
    return 0;
}

/* The length of the word, in which a space is one space, if it stands at `at` as a whole; else 0.
 */
static inline size_t whole_word(const struct text *t, size_t at, const char *word)
{
    if (!starts(t, at, word))
        return 0;
    const size_t len = strlen(word);
    return at + len == t->len || !letter(t->at[at + len]) ? len : 0;
}

/* Of the first of the words that does. */
static size_t any_word(const struct text *t, size_t at, const char *const *words)
{
    size_t len = 0;
    for (; *words && !len; words++)
        len = whole_word(t, at, *words);
    return len;
}

/* The first three letters of words, a bit each.  Most words of a prompt begin none of a list, which
 * need not be read for them. */
struct beginnings {
    uint32_t bits[32 * 32];
};
static struct beginnings of_sayings, of_denials; /* made once, then constant */
static pthread_once_t begun = PTHREAD_ONCE_INIT;

static unsigned letter_number(char c)
{
    return c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') : 31;
}

static void add_beginnings(struct beginnings *beginnings, const char *const *words)
{
    for (; *words; words++)
        beginnings->bits[letter_number((*words)[0]) * 32 + letter_number((*words)[1])] |=
            1u << letter_number((*words)[2]);
}

/* Whether a word of the lists, none of which has but one letter, may begin at `at`. */
static inline bool may_begin(const struct beginnings *beginnings, const struct text *t, size_t at)
{
    if ((at > 0 && letter(t->at[at - 1])) || t->len - at < 2)
        return false;
    return beginnings->bits[letter_number(t->at[at]) * 32 + letter_number(t->at[at + 1])] >>
               letter_number(at + 2 < t->len ? t->at[at + 2] : ' ') &
           1;
}

/* Where the lists may have something, from `from` on: the first letter of a word, a character of
 * several bytes, the n of "don't"; t->len for the end. */
static size_t next_start(const struct text *t, size_t from)
{
    bool within = from > 0 && letter(t->at[from - 1]);
    for (size_t at = from; at < t->len; at++) {
        const unsigned char c = (unsigned char)t->at[at];
        if (within && (unsigned)(c - 'a') < 26)
            continue;
        if ((c == '\'' || c >= 0x80) && at > from && t->at[at - 1] == 'n')
            return at - 1;
        const bool is_letter = letter((char)c);
        if (is_letter && (c >= 0xc0 || (c < 0x80 && !within)))
            return at;
        within = is_letter;
    }
    return t->len;
}

static void mark(struct text *t, size_t from, size_t to, enum kiln_mark kind)
{
    for (; from < to; from++)
        if (t->marks[from] < kind)
            t->marks[from] = (unsigned char)kind;
}

static const char *const clause_ends[] = {",",  ".",  ";",  ":",  "!",  "?",  "\n", "(", ")", "，",
                                          "。", "、", "；", "：", "！", "？", "|",  "—", "–", NULL};

static bool decimal_point(const struct text *t, size_t at)
{
    return t->at[at] == '.' && at > 0 && at + 1 < t->len && t->at[at - 1] >= '0' &&
           t->at[at - 1] <= '9' && t->at[at + 1] >= '0' && t->at[at + 1] <= '9';
}

static bool ends_clause(const struct text *t, size_t at)
{
    const char c = t->at[at];
    if (!(c & 0x80) && (c == ' ' || letter(c)))
        return false;
    if (c == '-') /* a dash */
        return at > 0 && t->at[at - 1] == ' ' && at + 1 < t->len && t->at[at + 1] == ' ';
    return any_of(t, at, clause_ends) && !decimal_point(t, at);
}

static size_t clause_end(const struct text *t, size_t at)
{
    while (at < t->len && !ends_clause(t, at))
        at++;
    return at;
}

/* --- quotation marks -------------------------------------------------------------------------- */

static const char *const pairs[][2] = {{"\"", "\""}, {"“", "”"}, {"”", "”"},   {"„", "“"},
                                       {"«", "»"},   {"»", "«"}, {"「", "」"}, {"『", "』"},
                                       {"《", "》"}, {"‹", "›"}};

/* An apostrophe opens a quotation at the beginning of a word and closes it at the end of one. */
static size_t single_quoted(const struct text *t, size_t at, const char *open, const char *close)
{
    const size_t skip = strlen(open);
    if (!starts(t, at, open) || (at > 0 && letter(t->at[at - 1])) || at + skip >= t->len ||
        !letter(t->at[at + skip]))
        return 0;
    const size_t last = t->len - at < QUOTE_MAX ? t->len : at + QUOTE_MAX;
    for (size_t end = at + skip + 1; end < last && t->at[end] != '\n'; end++)
        if (starts(t, end, close) && t->at[end - 1] != ' ' &&
            (end + strlen(close) == t->len || !letter(t->at[end + strlen(close)])))
            return end + strlen(close);
    return 0;
}

/* The end of the quotation that opens at `at`, 0 for none.  One that nobody closes reaches to the
 * end of its line. */
static size_t quoted(const struct text *t, size_t at)
{
    const unsigned char c = (unsigned char)t->at[at];
    if (c != '"' && c != '\'' && c < 0xc0)
        return 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!starts(t, at, pairs[i][0]))
            continue;
        size_t end = at + strlen(pairs[i][0]);
        /* 5" and 12" are inches. */
        if (t->at[at] == '"' && at > 0 && t->at[at - 1] >= '0' && t->at[at - 1] <= '9')
            return 0;
        while (end < t->len && t->at[end] != '\n' && !starts(t, end, pairs[i][1]))
            end++;
        return end < t->len && t->at[end] != '\n' ? end + strlen(pairs[i][1]) : end;
    }
    const size_t end = single_quoted(t, at, "'", "'");
    return end ? end : single_quoted(t, at, "‘", "’");
}

static const char *const sayings[] = {
    "that says", "which says", "says",     "saying",        "that reads", "which reads",
    "reads",     "titled",     "entitled", "labelled",      "labeled",    "captioned",
    "inscribed", "the words",  "the word", "with the text", "the text",   "the letters",
    "the title", "spelling",   NULL};
static const char *const sayings_cjk[] = {"写着", "寫著", "写有", "标题是", "題為", "题为",
                                          "上书", "名为", "刻着", "印着",   NULL};

static size_t word_before(const struct text *t, size_t at)
{
    at -= at > 0;
    while (at > 0 && letter(t->at[at - 1]))
        at--;
    return at;
}

/* "He says it must be clay", "my son says": no words in the picture. */
static bool somebody_says(const struct text *t, size_t at)
{
    static const char *const who[] = {"he", "she", "they", "client", NULL};
    static const char *const owners[] = {"my", "our", "his", "her", NULL};
    const size_t from = word_before(t, at), owner = word_before(t, from);
    return any_word(t, from, who) || (owner < from && any_word(t, owner, owners));
}

static void mark_sayings(struct text *t)
{
    for (size_t at = next_start(t, 0); at < t->len; at = next_start(t, at + 1)) {
        size_t said = 0;
        if (t->at[at] & 0x80)
            said = any_of(t, at, sayings_cjk);
        else if (may_begin(&of_sayings, t, at))
            said = any_word(t, at, sayings);
        if (!said || somebody_says(t, at))
            continue;
        size_t from = at + said;
        while (from < t->len && (t->at[from] == ' ' || t->at[from] == ':'))
            from++;
        /* What is quoted is what is said; the sentence goes on behind it. */
        if (from < t->len && t->marks[from] != KILN_MARK_QUOTED) {
            const size_t end = clause_end(t, from);
            mark(t, from, end, KILN_MARK_QUOTED);
            from = end;
        }
        at = from - 1;
    }
}

/* --- denials ---------------------------------------------------------------------------------- */

static const char *const denial_phrases[] = {
    "no need for",    "no need of",     "rather than",   "free of",
    "anything but",   "instead of",     "sick of",       "tired of",
    "fed up with",    "bored of",       "enough of",     "leave out",
    "leaving out",    "ditch the",      "drop the",      "lose the",
    "in place of",    "devoid of",      "other than",    "apart from",
    "aside from",     "as opposed to",  "opposed to",    "contrary to",
    "in lieu of",     "far from",       "scrap the",     "get rid of",
    "rid of",         "steer clear of", "stay clear of", "stay away from",
    "keep away from", "hold the",       "spare me",      "allergic to",
    "weary of",       "bored with",     "enough with",   "used to be",
    "stop giving",    "stop making",    "stop doing",    "stop using",
    "stop drawing",   "stop painting",  "ruled out",     "stop adding",
    "stop it with",   "stop with",      "rule out",      NULL};
static const char *const denial_words[] = {
    "not",      "no",      "without",  "never",      "avoid",  "avoiding", "except",   "neither",
    "nor",      "cannot",  "excludes", "excluding",  "lacks",  "lacking",  "minus",    "non",
    "nothing",  "hate",    "hates",    "dislike",    "skip",   "omit",     "omitting", "exclude",
    "forget",   "remove",  "dont",     "doesnt",     "isnt",   "arent",    "wasnt",    "aint",
    "shouldnt", "wont",    "than",     "unlike",     "sans",   "ditch",    "ditching", "skipping",
    "removing", "ban",     "banish",   "eliminate",  "reject", "refuse",   "loathe",   "loathes",
    "detest",   "detests", "formerly", "previously", "quit",   NULL};
/* The first letters of these, by which they are found without a look at each. */
#define COUNT(list) (sizeof(list) / sizeof *(list)-1)
static char phrase_firsts[COUNT(denial_phrases)], word_firsts[COUNT(denial_words)];

static size_t find_word(const struct text *t, size_t at, const char *const *words,
                        const char *firsts, size_t count)
{
    size_t len = 0;
    for (const char *next = firsts;
         !len && (next = memchr(next, t->at[at], (size_t)(firsts + count - next))) != NULL; next++)
        len = whole_word(t, at, words[next - firsts]);
    return len;
}

static size_t any_denial(const struct text *t, size_t at)
{
    const size_t len = find_word(t, at, denial_phrases, phrase_firsts, COUNT(denial_phrases));
    return len ? len : find_word(t, at, denial_words, word_firsts, COUNT(denial_words));
}

/* "Replace the neon with clay", "swap clay for neon": up to "with" or "for". */
static const char *const swaps[] = {"replace",  "replacing", "replaces", "swap", "swap out",
                                    "swapping", "trade",     "trading",  NULL};
static const char *const lesser[] = {"less", "fewer", NULL};
static const char *const swap_ends[] = {"with", "for", "by", "against", NULL};
/* Behind what is denied: "neon is not wanted". */
static const char *const nots[] = {"not ", "isn't ", "aren't ", NULL};
static const char *const welcomes[] = {"wanted",   "needed",    "allowed",   "welcome",
                                       "required", "necessary", "an option", NULL};
static const char *const refusals[] = {"unwanted", "banned", "forbidden", "is out of the question",
                                       NULL};
static const char *const no_denials[] = {
    "not only",          "not just",       "nothing but",        "no less than",
    "no less",           "no matter",      "not unlike",         "no doubt",
    "no other",          "nothing else",   "nothing other than", "none other than",
    "nothing less than", "more than just", "more than merely",   NULL};
static const char *const scope_ends[] = {
    "but",   "nor",     "only", "just", "in",    "with",      "at",   "on",     "by",      "under",
    "from",  "instead", "over", "near", "i",     "i'd",       "i’d",  "go for", "give me", "please",
    "let's", "we",      "you",  "try",  "do it", "it should", "want", "so",     "then",    NULL};
static const char *const small_words[] = {"a",   "or",   "and",  "an", "the", "any",
                                          "of",  "be",   "to",   "it", "is",  "at",
                                          "all", "make", "like", "me", "us",  NULL};
/* What is denied ends where something else is ordered: "skip the neon and make it clay". */
static const char *const orders[] = {
    "and make", "and draw", "and paint", "and render", "and turn", "and use",  "and do",
    "and go",   "and give", "and show",  "and sketch", "and try",  "and more", NULL};
/* "Not drawn with ink" denies ink. */
static const char *const makings[] = {
    "made",      "drawn",    "painted", "done",      "rendered",  "sketched",
    "built",     "modelled", "shaded",  "sculpted",  "printed",   "making",
    "drawing",   "painting", "doing",   "rendering", "sketching", "building",
    "modelling", "modeling", "modeled", "shading",   "sculpting", "printing",
    "molded",    "moulded",  "molding", "moulding",  "using",     "going",
    "doodled",   "inked",    "formed",  "shaped",    "created",   NULL};
static const char *const means[] = {"in", "with", "by", "from", "on", NULL};
static const char *const denials_cjk[] = {"不要", "沒有", "没有", "不是", "避免",
                                          "禁止", "不用", "不带", "无",   "無",
                                          "非",   "别",   "別",   "勿",   NULL};
/* Words with such a character that deny nothing. */
static const char *const no_denials_cjk[] = {"无人机", "无限", "无尽", "无边", "无敌",
                                             "无缝",   "無限", "无数", "非常", "非洲",
                                             "非凡",   "别墅", "别致", "别样", NULL};

static size_t word_end(const struct text *t, size_t at)
{
    while (at < t->len && letter(t->at[at]))
        at++;
    return at;
}

static size_t scope_end(const struct text *t, size_t at)
{
    unsigned words = 0;
    bool making = false;
    size_t end = at;
    while (at < t->len && words < SCOPE_WORDS && !ends_clause(t, at)) {
        if (!letter(t->at[at])) {
            at++;
            continue;
        }
        if (words > 0 && (any_word(t, at, orders) ||
                          (any_word(t, at, scope_ends) && !(making && any_word(t, at, means)))))
            break;
        const bool small = any_word(t, at, small_words) > 0;
        making = any_word(t, at, makings) > 0 || (making && small);
        words += !small;
        end = at = word_end(t, at);
    }
    return end;
}

static size_t swap_end(const struct text *t, size_t at)
{
    const size_t last = scope_end(t, at);
    for (size_t end = at; end < last; end++)
        if (!letter(t->at[end]) && end + 1 < last && any_word(t, end + 1, swap_ends))
            return end;
    return last;
}

/* "Less neon, more clay": up to the comma or "and" before "more". */
static size_t lessened(const struct text *t, size_t at)
{
    static const char *const more[] = {", more",  "; more",   " and more", " but more",
                                       " please", ", please", NULL};
    const size_t cue = any_word(t, at, lesser);
    const size_t end = cue ? scope_end(t, at + cue) : at;
    return cue && end < t->len && any_word(t, end, more) ? end : 0;
}

static bool refuses(const struct text *t, size_t at)
{
    const size_t no = any_of(t, at, nots);
    return (no && any_word(t, at + no, welcomes)) || any_word(t, at, refusals);
}

/* The beginning of what a refusal behind it denies: three words that say something, within the
 * clause and behind "and" or "but". */
static size_t refused(const struct text *t, size_t at)
{
    static const char *const others[] = {"and", "but", "with", NULL};
    unsigned words = 0;
    size_t from = at;
    while (at > 0 && words < 3 && !ends_clause(t, at - 1)) {
        at--;
        if (!letter(t->at[at]) || (at > 0 && letter(t->at[at - 1])))
            continue;
        if (any_word(t, at, others))
            break;
        words += any_word(t, at, small_words) == 0;
        from = at;
    }
    return from;
}

static size_t scope_end_cjk(const struct text *t, size_t at)
{
    for (unsigned n = 0; at < t->len && n < SCOPE_CHARS && !ends_clause(t, at); n++) {
        if (starts(t, at, "而") || starts(t, at, "但"))
            break;
        at++;
        while (at < t->len && (t->at[at] & 0xc0) == 0x80)
            at++;
    }
    return at;
}

/* "-clay +neon": a word with a minus sign. */
static size_t struck(const struct text *t, size_t at)
{
    if (at == 0 || t->at[at - 1] != '-' || (at > 1 && t->at[at - 2] != ' '))
        return at;
    while (at < t->len && (letter(t->at[at]) || t->at[at] == '-'))
        at++;
    return at;
}

/* "don't", "isn’t": behind the apostrophe. */
static size_t short_not(const struct text *t, size_t at)
{
    if (!starts(t, at, "n't") && !starts(t, at, "n’t"))
        return 0;
    const size_t len = t->at[at + 1] == '\'' ? 3 : 5;
    return at > 0 && letter(t->at[at - 1]) && (at + len == t->len || !letter(t->at[at + len])) ? len
                                                                                               : 0;
}

static void mark_denials(struct text *t)
{
    for (size_t at = next_start(t, 0); at < t->len; at = next_start(t, at + 1)) {
        const bool ascii = !(t->at[at] & 0x80);
        mark(t, at, struck(t, at), KILN_MARK_NEGATED);
        const bool begins = may_begin(&of_denials, t, at);
        size_t cue = t->at[at] == 'n' ? short_not(t, at) : 0;
        if (t->marks[at] != KILN_MARK_NONE || (ascii && !begins && !cue))
            continue;
        const size_t none = !cue && begins ? any_word(t, at, no_denials) : 0;
        if (none > 0) {
            at += none - 1;
            continue;
        }
        if (begins && refuses(t, at))
            mark(t, refused(t, at), at, KILN_MARK_NEGATED);
        if (!cue && begins)
            cue = any_denial(t, at);
        const size_t less = !cue && begins ? lessened(t, at) : 0;
        mark(t, at, less, KILN_MARK_NEGATED);
        const size_t swap = !cue && begins ? any_word(t, at, swaps) : 0;
        if (swap > 0) {
            mark(t, at, swap_end(t, at + swap), KILN_MARK_NEGATED);
        } else if (starts(t, at, "free") && at > 1 && t->at[at - 1] == '-' &&
                   (at + 4 == t->len || !letter(t->at[at + 4]))) {
            for (size_t from = at - 1; from > 0 && t->at[from - 1] > ' '; from--)
                mark(t, from - 1, from, KILN_MARK_NEGATED); /* "hatching-free" */
        } else if (cue) {
            mark(t, at, scope_end(t, at + cue), KILN_MARK_NEGATED);
        } else if (!ascii && !any_of(t, at, no_denials_cjk) &&
                   (cue = any_of(t, at, denials_cjk)) > 0 &&
                   !(at >= 3 && starts(t, at - 3, "特"))) { /* 特别 */
            mark(t, at, scope_end_cjk(t, at + cue), KILN_MARK_NEGATED);
        }
    }
}

/* --- syntax ----------------------------------------------------------------------------------- */

static size_t syntax(const struct text *t, size_t at)
{
    static const char *const tags[] = {
        "<lora:", "<lyco:", "<hypernet:", "<trigger", "<embed", NULL};
    static const char *const addresses[] = {"http://", "https://", "www.", NULL};
    size_t end = at;
    const char c = t->at[at];
    if (c != '<' && c != 'h' && c != 'w' && c != ':')
        return 0;
    if (c == '<' && any_of(t, at, tags)) {
        while (end < t->len && t->at[end] != '>' && t->at[end] != '\n')
            end++;
        return end < t->len ? end + 1 : end;
    }
    if ((c == 'h' || c == 'w') && any_of(t, at, addresses)) {
        while (end < t->len && (unsigned char)t->at[end] > ' ')
            end++;
        return end;
    }
    if (t->at[at] != ':') /* the weight of "(word:1.2)" */
        return 0;
    for (end = at + 1; end < t->len && strchr("0123456789. ", t->at[end]); end++)
        ;
    return end > at + 1 && end < t->len && t->at[end] == ')' ? end : 0;
}

static void mark_syntax(struct text *t)
{
    for (size_t at = 0; at < t->len; at++) {
        const size_t end = syntax(t, at);
        if (end) {
            mark(t, at, end, KILN_MARK_SYNTAX);
            at = end - 1;
        }
    }
}

/* "'Pixel art' is the look", "as the style": it is asked for by name. */
static bool named_as_look(const struct text *t, size_t at)
{
    static const char *const links[] = {"is", "as", "for", "would be", "should be", NULL};
    static const char *const owners[] = {"the", "my", "our", NULL};
    static const char *const looks[] = {"look",      "style",     "aesthetic", "vibe",
                                        "technique", "art style", "theme",     "mood",
                                        "treatment", "finish",    "medium",    NULL};
    static const char *const cjk[] = {"那样", "那种", "一样", "风格", "里的", NULL};
    const char *const *const parts[] = {links, owners, looks};
    if (at < t->len && any_of(t, at, cjk))
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (at >= t->len || t->at[at] != ' ')
            return false;
        const size_t len = any_word(t, at + 1, parts[i]);
        if (!len)
            return false;
        at += 1 + len;
    }
    return true;
}

static void mark_quoted(struct text *t)
{
    for (size_t at = 0; at < t->len; at++) {
        const size_t end = quoted(t, at);
        if (end) {
            if (!named_as_look(t, end))
                mark(t, at, end, KILN_MARK_QUOTED);
            at = end - 1;
        }
    }
}

static void begin(void)
{
    for (size_t i = 0; i < COUNT(denial_phrases); i++)
        phrase_firsts[i] = denial_phrases[i][0];
    for (size_t i = 0; i < COUNT(denial_words); i++)
        word_firsts[i] = denial_words[i][0];
    add_beginnings(&of_sayings, sayings);
    add_beginnings(&of_denials, denial_phrases);
    add_beginnings(&of_denials, denial_words);
    add_beginnings(&of_denials, no_denials);
    add_beginnings(&of_denials, swaps);
    add_beginnings(&of_denials, refusals);
    add_beginnings(&of_denials, nots);
    add_beginnings(&of_denials, lesser);
}

void kiln_words_marks(const char *folded, size_t len, unsigned char *marks)
{
    struct text t = {folded, len, marks};
    (void)pthread_once(&begun, begin);
    memset(marks, KILN_MARK_NONE, len);
    /* Most prompts have none of these, and to see that is quicker than to look at each place. */
    if (memchr(folded, '<', len) || memchr(folded, ':', len) || memmem(folded, len, "www.", 4))
        mark_syntax(&t);
    if (!kiln_utf8_ascii(folded, len) || memchr(folded, '"', len) || memchr(folded, '\'', len))
        mark_quoted(&t);
    mark_sayings(&t);
    mark_denials(&t);
}
