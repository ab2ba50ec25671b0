/* petrel's commands: one file each, one row each in main.c's table. Each returns an exit code and
 * prints what it has to say. argv[0] is the command's name. */
#ifndef PETREL_CLI_COMMANDS_H
#define PETREL_CLI_COMMANDS_H

int command_copy(int argc, char **argv);
int command_install(int argc, char **argv);
int command_uninstall(int argc, char **argv);
int command_checksum(int argc, char **argv); /* for petrel install's script over there */
int command_bench(int argc, char **argv);
int command_clean(int argc, char **argv);
int command_manifest(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_paths(int argc, char **argv);
int command_config(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_remote(int argc, char **argv); /* the far end of a copy, started through ssh */

#endif
