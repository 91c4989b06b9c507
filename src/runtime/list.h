/* Sequences and optionals as values of a run.  For files of runtime only.
 *
 * A list is shared by count and not changed while more than one holder has it; its items are shared too, and never changed.  One
 * thread at a time, as its context. */
#ifndef TERCEL_RUNTIME_LIST_H
#define TERCEL_RUNTIME_LIST_H

#include "runtime/memory.h"

typedef struct tercel_item {
  uint32_t refs;
  tercel_account *account; /* NULL: data is borrowed from the caller for the run */
  size_t data_bytes;       /* counted there */
  tercel_tensor tensor;
} tercel_item;

typedef struct tercel_list {
  uint32_t refs;
  tercel_type_kind kind; /* sequence, optional or map */
  tercel_dtype dtype;
  struct tercel_list *inner; /* of an optional that holds a sequence; NULL when empty */
  tercel_item **items;       /* of an optional: none or one; of a map: keys and values */
  size_t count, capacity;
} tercel_list;

/* Characters of a string tensor (0 for others), and copying them to `to`, where the elements then point. */
size_t tercel_count_characters(const tercel_tensor *tensor);
void tercel_copy_characters(const tercel_tensor *tensor, char *to);

/* An item with a copy of the tensor's data, characters of strings too; borrowed: pointing at it. */
tercel_status tercel_item_create(tercel_account *account, const tercel_tensor *tensor, bool borrowed, tercel_item **out,
                                 tercel_error *err);
tercel_item *tercel_item_retain(tercel_item *item);
void tercel_item_release(tercel_item *item);

tercel_status tercel_list_create(tercel_type_kind kind, tercel_dtype dtype, size_t capacity, tercel_list **out,
                                 tercel_error *err);
tercel_list *tercel_list_retain(tercel_list *list); /* NULL is fine */
void tercel_list_release(tercel_list *list);        /* NULL is fine */
/* A list that the caller alone holds, with the same items: *list itself where that is so already (its reference passes on), else a copy
 * (and *list loses a reference). */
tercel_status tercel_list_own(tercel_list **list, tercel_error *err);
/* Puts an item (whose reference passes to the list, also on failure) before position `at` of an owned list. */
tercel_status tercel_list_insert(tercel_list *list, size_t at, tercel_item *item, tercel_error *err);
void tercel_list_erase(tercel_list *list, size_t at);
/* Replaces borrowed items by copies, in a list of the caller's own. */
tercel_status tercel_list_settle(tercel_list **list, tercel_account *account, tercel_error *err);

#endif
