/* command.c - see command.h. */
#include "tests/hostile/command.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const hostile_rights_names[HOSTILE_RIGHTS] = {"producer", "operator", "all"};

static void *grown(void *at, size_t size)
{
    void *more = realloc(at, size);
    if (!more)
        abort();
    return more;
}

struct hostile_command *hostile_command_new(enum hostile_rights rights)
{
    struct hostile_command *command = grown(NULL, sizeof *command);
    *command = (struct hostile_command){.rights = rights};
    return command;
}

struct hostile_command *hostile_command_of(enum hostile_rights rights, const char *const *words)
{
    struct hostile_command *command = hostile_command_new(rights);
    for (; *words; words++)
        hostile_command_add(command, hostile_text(*words));
    return command;
}

void hostile_command_add(struct hostile_command *command, struct hostile_bytes word)
{
    command->words = grown(command->words, (command->count + 1) * sizeof *command->words);
    command->words[command->count++] = word;
}

struct hostile_command *hostile_command_copy(const struct hostile_command *command)
{
    struct hostile_command *copy = hostile_command_new(command->rights);
    for (size_t i = 0; i < command->count; i++)
        hostile_command_add(copy, hostile_copy(command->words[i].at, command->words[i].len));
    return copy;
}

void hostile_command_free(struct hostile_command *command)
{
    if (!command)
        return;
    for (size_t i = 0; i < command->count; i++)
        hostile_release(&command->words[i]);
    free(command->words);
    free(command);
}

bool hostile_command_is(const struct hostile_command *command, const char *verb)
{
    return command->count > 0 && strcasecmp(command->words[0].at, verb) == 0;
}

/* XADD key [MAXLEN count] id name value ... */
size_t hostile_command_fields(const struct hostile_command *command)
{
    if (!hostile_command_is(command, "XADD") || command->count < 5)
        return 0;
    return strcasecmp(command->words[2].at, "MAXLEN") == 0 ? 5 : 3;
}

static void print_word(const struct hostile_bytes *word, FILE *to)
{
    fputc('"', to);
    for (size_t i = 0; i < word->len; i++) {
        unsigned char c = (unsigned char)word->at[i];
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(to, "\\x%02x", c);
        else
            fputc(c, to);
    }
    fputc('"', to);
}

void hostile_command_print(const struct hostile_command *command, FILE *to)
{
    for (size_t i = 0; i < command->count; i++) {
        if (i > 0)
            fputc(' ', to);
        print_word(&command->words[i], to);
    }
    fputc('\n', to);
}

void hostile_list_add(struct hostile_list *list, struct hostile_command *command)
{
    list->at = grown(list->at, (list->count + 1) * sizeof(struct hostile_command *));
    list->at[list->count++] = command;
}

void hostile_list_release(struct hostile_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        hostile_command_free(list->at[i]);
    free(list->at);
    *list = (struct hostile_list){0};
}
