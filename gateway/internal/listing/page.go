package listing

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/mcpvisor/mcpvisor/gateway/internal/message"
)

// CacheScope is the cacheScope of all lists.
const CacheScope = "private"

// page returns the page of a list that follows cursor, and the cursor of the next page. A
// cursor names the last entry of its page, so that no entry is left out or listed twice
// because others came or went meanwhile.
func page[T any](list []T, keyOf func(*T) Owner, cursor string, size int) (part []T, next string, err error) {
	if cursor != "" {
		after, ok := decodeCursor(cursor)
		if !ok {
			return nil, "", message.InvalidParams("the cursor is not one of this session; list again without it")
		}
		at, found := slices.BinarySearchFunc(list, after, func(entry T, k Owner) int { return compareKeys(keyOf(&entry), k) })
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

func encodeCursor(k Owner) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.Server + "/" + k.Name))
}

func decodeCursor(cursor string) (k Owner, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return Owner{}, false
	}
	k.Server, k.Name, ok = strings.Cut(string(text), "/")
	return k, ok
}
