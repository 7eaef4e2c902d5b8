package door

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"
)

// cacheScope is that of all lists. Their ttlMs is 0: they change when a server does.
const cacheScope = "private"

// key is the place of an entry in a list: lists are sorted by server, and then by name.
type key struct{ server, name string }

func compareKeys(a, b key) int {
	return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.name, b.name))
}

// page returns the page of a list that follows cursor, and the cursor of the next page. A
// cursor names the last entry of its page, so that no entry is left out or listed twice
// because others came or went meanwhile.
func page[T any](list []T, keyOf func(*T) key, cursor string, size int) (part []T, next string, err error) {
	if cursor != "" {
		after, ok := decodeCursor(cursor)
		if !ok {
			return nil, "", invalidParams("the cursor is not one of this session; list again without it")
		}
		at, found := slices.BinarySearchFunc(list, after, func(entry T, k key) int { return compareKeys(keyOf(&entry), k) })
		if found {
			at++
		}
		list = list[at:]
	}
	if len(list) <= size {
		return list, "", nil
	}
	return list[:size], encodeCursor(keyOf(&list[size-1])), nil
}

func encodeCursor(k key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.server + "/" + k.name))
}

func decodeCursor(cursor string) (k key, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return key{}, false
	}
	k.server, k.name, ok = strings.Cut(string(text), "/")
	return k, ok
}
