package journal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpvisor/mcpvisor"
)

// What a record holds, or why it is damaged, is said of any bytes; what can be read can be written.
func FuzzDecode(f *testing.F) {
	key := mcpvisor.JournalKey{Principal: "p", Key: "k"}
	record, err := encode(mcpvisor.JournalEntry{Principal: "p", Key: "k", Server: "s", Tool: "t", State: mcpvisor.JournalEnded, Began: time.Unix(1, 0), Result: []byte(`{}`)})
	require.NoError(f, err)
	f.Add(encodeKey(key), record)
	f.Add([]byte{}, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, key, record []byte) {
		if e, err := decode(key, record); err == nil {
			_, err = encode(e)
			require.NoError(t, err)
		}
	})
}
