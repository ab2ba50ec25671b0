#include "serve/confine.h"

/* Built without libseccomp. */
bool confine_calls(struct confine_done *done, struct error *error)
{
    (void)error;
    done->calls = false;
    return true;
}
