/* test_reuse_pairs.c - the guard on whole lists of pairs: none is taken that differs in a fact, and
 * most of those with the same facts are.  Prints the table of schemas/reuse/README.md.
 *
 *     test_reuse_pairs                        both lists
 *     test_reuse_pairs dev|test [CLASS]       one half; with CLASS each of its pairs and its
 * verdict
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/reuse/guard.h"

/* Classes whose pairs state the same, or of which the donor says more; all others differ. */
static const char *const same_classes[] = {"same", "reworded alike", "reworded freely",
                                           "fewer alike", "fewer freely"};

enum { CLASSES_MAX = 32 };

struct tally {
    char name[32];
    unsigned pairs, accepted, by_class[KILN_REUSE_CLASS_COUNT];
};

struct list {
    const char *file;
    struct tally tallies[CLASSES_MAX];
    unsigned count, same, same_accepted, other, other_accepted;
};

static struct kiln_reuse_words *words;
static const char *half, *shown; /* NULL: all, none */

static bool states_the_same(const char *class)
{
    for (size_t i = 0; i < sizeof same_classes / sizeof *same_classes; i++)
        if (strcmp(class, same_classes[i]) == 0)
            return true;
    return false;
}

static struct tally *tally_of(struct list *list, const char *name)
{
    for (unsigned i = 0; i < list->count; i++)
        if (strcmp(list->tallies[i].name, name) == 0)
            return &list->tallies[i];
    if (list->count == CLASSES_MAX)
        return NULL;
    struct tally *tally = &list->tallies[list->count++];
    snprintf(tally->name, sizeof tally->name, "%s", name);
    return tally;
}

static int judge(struct list *list, unsigned number, char *line)
{
    char *class = strsep(&line, "\t"), *target = strsep(&line, "\t"),
         *donor = strsep(&line, "\t\n");
    enum kiln_reuse_class got;
    char reason[KILN_REUSE_REASON_MAX];
    struct kiln_error err = {0};
    struct tally *tally = donor ? tally_of(list, class) : NULL;
    if (!tally || kiln_reuse_judge(words, target, donor, &got, reason, &err) != 0) {
        fprintf(stderr, "%s:%u: no pair of a class%s%s\n", list->file, number,
                err.text[0] ? ": " : "", err.text);
        return 1;
    }
    bool taken = got != KILN_REUSE_NONE, same = states_the_same(class);
    tally->pairs++;
    tally->accepted += taken;
    tally->by_class[got]++;
    *(same ? &list->same : &list->other) += 1;
    *(same ? &list->same_accepted : &list->other_accepted) += taken;
    if ((shown && strcmp(shown, class) == 0) || (taken && !same))
        printf("%s:%u: %s: %s%s%s\n    %s\n    %s\n", list->file, number, class,
               kiln_reuse_class_name(got), reason[0] ? ": " : "", reason, target, donor);
    return 0;
}

static int read_list(struct list *list)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    const char *source = getenv("KILN_SOURCE");
    snprintf(path, sizeof path, "%s/tests/quality/reuse/%s", source ? source : ".", list->file);
    FILE *in = fopen(path, "r");
    if (!in) {
        fprintf(stderr, "%s: cannot be opened\n", path);
        return 1;
    }
    int bad = 0;
    for (unsigned number = 1; bad == 0 && getline(&line, &room, in) > 0; number++) {
        bool dev = number % 2;
        if (line[0] != '#' && line[0] != '\n' && (!half || dev == (strcmp(half, "dev") == 0)))
            bad = judge(list, number, line);
    }
    free(line);
    fclose(in);
    return bad;
}

static void print(const struct list *list)
{
    printf("| %s | pairs | accepted | same prompt | canonical | reworded | donor says more |\n",
           list->file);
    printf("| --- | --- | --- | --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < list->count; i++) {
        const struct tally *t = &list->tallies[i];
        printf("| %s | %u | %u (%.1f %%) | %u | %u | %u | %u |\n", t->name, t->pairs, t->accepted,
               100.0 * t->accepted / t->pairs, t->by_class[1], t->by_class[2], t->by_class[3],
               t->by_class[4]);
    }
    printf("same facts: %u of %u accepted (%.1f %%); another fact: %u of %u\n\n",
           list->same_accepted, list->same,
           100.0 * list->same_accepted / (list->same + !list->same), list->other_accepted,
           list->other);
}

/* The lists of the sketch model's own words, for the pairs of its world. */
static int add_words_of_sketch(void)
{
    char path[4096], *text = NULL;
    const char *source = getenv("KILN_SOURCE");
    struct kiln_error err = {0};
    size_t room = 0;
    snprintf(path, sizeof path, "%s/pipeline/models/sketch/words.txt", source ? source : ".");
    FILE *in = fopen(path, "r");
    int bad = !in || getdelim(&text, &room, '\0', in) <= 0 ||
              kiln_reuse_words_add(words, text, &err) != 0;
    if (bad)
        fprintf(stderr, "%s: %s\n", path, err.text[0] ? err.text : "cannot be read");
    free(text);
    if (in)
        fclose(in);
    return bad;
}

int main(int argc, char **argv)
{
    static struct list lists[] = {{.file = "world.tsv"}, {.file = "demo.tsv"}};
    /* What the lists hold at least, and the least share that is accepted. */
    static const struct {
        unsigned other;
        double share;
    } least[] = {{200, 0.60}, {1200, 0.60}};
    struct kiln_error err = {0};
    int bad = 0;
    half = argc > 1 ? argv[1] : NULL;
    shown = argc > 2 ? argv[2] : NULL;
    if (kiln_reuse_words_new(NULL, 0, &words, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (unsigned i = 0; i < 2; i++) {
        if ((i == 1 && add_words_of_sketch()) || read_list(&lists[i])) {
            bad = 1;
            break;
        }
        print(&lists[i]);
        if (lists[i].other_accepted ||
            (!half && (lists[i].other < least[i].other ||
                       lists[i].same_accepted < least[i].share * lists[i].same))) {
            printf("%s: false hits, too few pairs or too few accepted\n", lists[i].file);
            bad = 1;
        }
    }
    kiln_reuse_words_free(words);
    return bad;
}
