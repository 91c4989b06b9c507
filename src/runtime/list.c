/* Sequences and optionals: shared lists of shared tensors. */
#include "runtime/list.h"

#include <string.h>

size_t tercel_count_characters(const tercel_tensor *tensor) {
  size_t total = 0;
  const tercel_string *const strings = tensor->data;
  const int64_t count = tensor->dtype == TERCEL_DTYPE_STRING ? tercel_tensor_num_elements(tensor) : 0;
  for (int64_t i = 0; i < count; ++i) total += strings[i].length; /* they all lie in memory: no overflow */
  return total;
}

void tercel_copy_characters(const tercel_tensor *tensor, char *to) {
  tercel_string *const strings = tensor->data;
  const int64_t count = tercel_tensor_num_elements(tensor);
  for (int64_t i = 0; i < count; ++i) {
    if (strings[i].length > 0) memcpy(to, strings[i].data, strings[i].length);
    strings[i].data = to;
    to += strings[i].length;
  }
}

/* One block: item, data at the next cache line, characters. */
tercel_status tercel_item_create(tercel_account *account, const tercel_tensor *tensor, bool borrowed, tercel_item **out,
                                 tercel_error *err) {
  size_t head = 0, data_bytes = 0, bytes = 0;
  if (!borrowed) data_bytes = tercel_count_characters(tensor);
  if (!tercel_round_up_size(sizeof(tercel_item), TERCEL_ALIGNMENT, &head) ||
      !tercel_add_size(data_bytes, borrowed ? 0 : tensor->bytes, &data_bytes) ||
      !tercel_add_size(head, data_bytes, &bytes))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "an element of a sequence is too large to address");
  TERCEL_TRY(tercel_account_check(account, data_bytes, err));
  tercel_item *const item = tercel_alloc(bytes);
  if (item == NULL) return tercel_fail_memory(err, bytes, "an element of a sequence");
  *item = (tercel_item){.refs = 1, .account = borrowed ? NULL : account, .data_bytes = data_bytes, .tensor = *tensor};
  if (!borrowed) {
    item->tensor.data = (char *)item + head;
    if (tensor->bytes > 0) memcpy(item->tensor.data, tensor->data, tensor->bytes);
    if (tensor->dtype == TERCEL_DTYPE_STRING)
      tercel_copy_characters(&item->tensor, (char *)item + head + tensor->bytes);
    account->used_bytes += data_bytes;
  }
  *out = item;
  return TERCEL_OK;
}

tercel_item *tercel_item_retain(tercel_item *item) {
  ++item->refs;
  return item;
}

void tercel_item_release(tercel_item *item) {
  if (item == NULL || --item->refs > 0) return;
  if (item->account != NULL) item->account->used_bytes -= item->data_bytes;
  tercel_free(item);
}

tercel_status tercel_list_create(tercel_type_kind kind, tercel_dtype dtype, size_t capacity, tercel_list **out,
                                 tercel_error *err) {
  tercel_list *const list = tercel_zalloc(sizeof *list);
  if (list == NULL) return tercel_fail_memory(err, sizeof *list, "a sequence");
  *list = (tercel_list){.refs = 1, .kind = kind, .dtype = dtype, .capacity = capacity};
  if (capacity > 0) {
    list->items = tercel_alloc_array(capacity, sizeof(tercel_item *));
    if (list->items == NULL) {
      tercel_free(list);
      return tercel_fail_memory(err, capacity * sizeof(tercel_item *), "a sequence");
    }
  }
  *out = list;
  return TERCEL_OK;
}

tercel_list *tercel_list_retain(tercel_list *list) {
  if (list != NULL) ++list->refs;
  return list;
}

void tercel_list_release(tercel_list *list) {
  if (list == NULL || --list->refs > 0) return;
  for (size_t i = 0; i < list->count; ++i) tercel_item_release(list->items[i]);
  tercel_list_release(list->inner);
  tercel_free(list->items);
  tercel_free(list);
}

tercel_status tercel_list_own(tercel_list **list, tercel_error *err) {
  tercel_list *const old = *list;
  if (old->refs == 1) return TERCEL_OK;
  tercel_list *copy = NULL;
  TERCEL_TRY(tercel_list_create(old->kind, old->dtype, old->count, &copy, err));
  for (; copy->count < old->count; ++copy->count)
    copy->items[copy->count] = tercel_item_retain(old->items[copy->count]);
  copy->inner = tercel_list_retain(old->inner);
  tercel_list_release(old);
  *list = copy;
  return TERCEL_OK;
}

tercel_status tercel_list_insert(tercel_list *list, size_t at, tercel_item *item, tercel_error *err) {
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity < 4 ? 8 : 2 * list->capacity;
    tercel_item **const items = tercel_alloc_array(capacity, sizeof(tercel_item *));
    if (items == NULL) {
      tercel_item_release(item);
      return tercel_fail_memory(err, capacity * sizeof(tercel_item *), "a sequence");
    }
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof(tercel_item *));
    tercel_free(list->items);
    list->items = items;
    list->capacity = capacity;
  }
  memmove(list->items + at + 1, list->items + at, (list->count - at) * sizeof(tercel_item *));
  list->items[at] = item;
  ++list->count;
  return TERCEL_OK;
}

void tercel_list_erase(tercel_list *list, size_t at) {
  tercel_item_release(list->items[at]);
  --list->count;
  memmove(list->items + at, list->items + at + 1, (list->count - at) * sizeof(tercel_item *));
}

tercel_status tercel_list_settle(tercel_list **list, tercel_account *account, tercel_error *err) {
  if (*list == NULL) return TERCEL_OK;
  if ((*list)->inner != NULL) {
    TERCEL_TRY(tercel_list_own(list, err));
    TERCEL_TRY(tercel_list_settle(&(*list)->inner, account, err));
  }
  for (size_t i = 0; i < (*list)->count; ++i) {
    if ((*list)->items[i]->account != NULL) continue;
    TERCEL_TRY(tercel_list_own(list, err));
    tercel_item *copy = NULL;
    TERCEL_TRY(tercel_item_create(account, &(*list)->items[i]->tensor, false, &copy, err));
    tercel_item_release((*list)->items[i]);
    (*list)->items[i] = copy;
  }
  return TERCEL_OK;
}
