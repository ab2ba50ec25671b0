#include "tree/owner_names.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define REMEMBERED 64u
#define RECORD_SIZE 16384u /* what a user's or a group's record may take; groups can be long */

struct remembered {
    bool known;
    uint32_t id, here; /* here: what id and name mean on this machine */
    char name[ATTRIBUTES_NAME_MAX + 1];
};

struct owner_names {
    struct remembered by_id[2][REMEMBERED], by_name[2][REMEMBERED];
    char record[RECORD_SIZE];
};

struct owner_names *owner_names_new(void)
{
    return calloc(1, sizeof(struct owner_names));
}

void owner_names_free(struct owner_names *names)
{
    free(names);
}

static const char *look_up_name(struct owner_names *names, bool group, uint32_t id)
{
    struct passwd user, *found_user = NULL;
    struct group members, *found_group = NULL;
    if (group && getgrgid_r(id, &members, names->record, sizeof names->record, &found_group) == 0 &&
        found_group != NULL)
        return found_group->gr_name;
    if (!group && getpwuid_r(id, &user, names->record, sizeof names->record, &found_user) == 0 &&
        found_user != NULL)
        return found_user->pw_name;
    return "";
}

const char *owner_name(struct owner_names *names, bool group, uint32_t id)
{
    struct remembered *slot = &names->by_id[group][id % REMEMBERED];
    if (slot->known && slot->id == id)
        return slot->name;
    const char *name = look_up_name(names, group, id);
    if (strlen(name) > ATTRIBUTES_NAME_MAX)
        name = "";
    *slot = (struct remembered){.known = true, .id = id};
    strcpy(slot->name, name);
    return slot->name;
}

static uint32_t look_up_id(struct owner_names *names, bool group, const char *name, uint32_t other)
{
    struct passwd user, *found_user = NULL;
    struct group members, *found_group = NULL;
    if (group &&
        getgrnam_r(name, &members, names->record, sizeof names->record, &found_group) == 0 &&
        found_group != NULL)
        return found_group->gr_gid;
    if (!group && getpwnam_r(name, &user, names->record, sizeof names->record, &found_user) == 0 &&
        found_user != NULL)
        return found_user->pw_uid;
    return other;
}

uint32_t owner_id(struct owner_names *names, bool group, uint32_t id, const char *name, size_t size)
{
    if (id == 0 || size == 0 || size > ATTRIBUTES_NAME_MAX)
        return id;
    struct remembered *slot = &names->by_name[group][id % REMEMBERED];
    if (slot->known && slot->id == id && strlen(slot->name) == size &&
        memcmp(slot->name, name, size) == 0)
        return slot->here;
    *slot = (struct remembered){.known = true, .id = id};
    memcpy(slot->name, name, size);
    slot->name[size] = '\0';
    slot->here = look_up_id(names, group, slot->name, id);
    return slot->here;
}
