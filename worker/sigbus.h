/* sigbus.h - a sentence for a model file that is cut short while it is mapped.
 *
 * Reading a mapped page beyond the new end of the file raises SIGBUS, which would end the process
 * without a word.
 */
#ifndef KILN_SIGBUS_H
#define KILN_SIGBUS_H

/* From now on such a read prints "PROGRAM: a mapped model file was cut short ..." and exits with
 * EX_IOERR.  Any other SIGBUS ends the process as it would have. */
void kiln_sigbus_explain(const char *program);

#endif
