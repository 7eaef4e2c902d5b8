package sessionid

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOpen(t *testing.T) {
	key, now := NewKey(), time.Unix(1_800_000_000, 0)
	made := New(3, 5, "alice", now.Add(time.Hour))
	id := Seal(key, made)
	got, err := Open(key, id, "alice", now)
	require.NoError(t, err)
	require.Equal(t, made.Nonce, got.Nonce)
	require.Equal(t, []any{made.Version, made.Capabilities, made.Principal, made.Expiry.Unix()}, []any{got.Version, got.Capabilities, got.Principal, got.Expiry.Unix()})
	require.NotEqual(t, id, Seal(key, New(3, 5, "alice", now.Add(time.Hour))), "sessions have ids of their own")

	for what, try := range map[string]struct {
		key           []byte
		id, principal string
		now           time.Time
		want          error
	}{
		"another key":       {NewKey(), id, "alice", now, ErrForged},
		"another principal": {key, id, "bob", now, ErrPrincipal},
		"no principal":      {key, id, "", now, ErrPrincipal},
		"expired":           {key, id, "alice", now.Add(time.Hour), ErrExpired},
		"empty":             {key, "", "alice", now, ErrForged},
		"longer":            {key, id + "A", "alice", now, ErrForged},
		"shorter":           {key, id[1:], "alice", now, ErrForged},
	} {
		_, err := Open(try.key, try.id, try.principal, try.now)
		require.ErrorIs(t, err, try.want, what)
	}
	for i := range id { // each character counts
		for _, c := range []byte{'A', 'B', '!', '_'} {
			forged := []byte(id)
			if forged[i] == c {
				continue
			}
			forged[i] = c
			_, err := Open(key, string(forged), "alice", now)
			require.ErrorIs(t, err, ErrForged, "%s", forged)
		}
	}
}

// An id has the name of the client. However long that is, the id is bounded, and each of its characters counts.
func TestOpen_client(t *testing.T) {
	key, now := NewKey(), time.Now()
	for _, names := range [][4]string{
		{"cursor", "1.2", "cursor", "1.2"}, {"", "1.2", "", "1.2"}, {"a\x00b", "", "a\x00b", ""},
		{strings.Repeat("x", 1<<16), strings.Repeat("é", 1<<16), strings.Repeat("x", 100), strings.Repeat("é", 50)},
		{"x" + strings.Repeat("é", 100), "1", "x" + strings.Repeat("é", 49), "1"},
	} {
		made := New(1, 2, "ann", now.Add(time.Hour))
		made.Client, made.ClientVersion = names[0], names[1]
		id := Seal(key, made)
		require.LessOrEqual(t, len(id), maxIDLength)
		got, err := Open(key, id, "ann", now)
		require.NoError(t, err)
		require.Equal(t, []string{names[2], names[3]}, []string{got.Client, got.ClientVersion})
		for i := range id {
			forged := []byte(id)
			forged[i] = 'A' + (forged[i]-'A'+1)%26
			_, err := Open(key, string(forged), "ann", now)
			require.ErrorIs(t, err, ErrForged)
		}
	}
	require.Len(t, Seal(key, New(1, 2, "ann", now)), encoding.EncodedLen(bodyBytes+signatureBytes), "as before, without a name")
}

func TestLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var mu sync.Mutex
	keys := map[string]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			key, err := LoadKey(path)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				keys[string(key)] = true
			}
		})
	}
	all.Wait()
	require.Len(t, keys, 1, "all have the same key")
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	require.NoError(t, os.Chmod(path, 0o640))
	_, err = LoadKey(path)
	require.ErrorContains(t, err, "may be read or changed by other users")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("short"), 0o600))
	_, err = LoadKey(path)
	require.ErrorContains(t, err, "does not have 32 bytes")
	_, err = LoadKey(filepath.Join(path, "nowhere"))
	require.Error(t, err)
}

// A principal that ends sessions in a loop makes its own ids valid again, those that expire first, and no others.
func TestEnded(t *testing.T) {
	e, soon := NewEnded(100), time.Now().Add(time.Hour)
	id := func(n int) [nonceBytes]byte { return [nonceBytes]byte{byte(n), byte(n >> 8)} }
	for n := range 10 {
		e.Add("ann", id(n), soon)
	}
	for n := range 1000 {
		e.Add("eve", id(n), soon.Add(time.Duration(n)*time.Minute+time.Minute))
		require.LessOrEqual(t, e.count, 100)
	}
	for n := range 10 {
		require.True(t, e.Has("ann", id(n)))
		require.False(t, e.Has("eve", id(n)))
	}
	require.True(t, e.Has("eve", id(999)))

	e = NewEnded(3)
	for n := range 10 {
		e.Add("eve", id(n), time.Now())
	}
	e.Add("ann", id(1), soon)
	require.True(t, e.Has("ann", id(1)))
	require.LessOrEqual(t, e.count, 3)
}

// An id that is not the one of a session opens none.
func FuzzOpen(f *testing.F) {
	key, now := make([]byte, 32), time.Unix(1_800_000_000, 0)
	f.Add(Seal(key, New(3, 5, "alice", now.Add(time.Hour))), "alice")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, id, principal string) {
		if s, err := Open(key, id, principal, now); err == nil {
			require.Equal(t, id, Seal(key, s))
		}
	})
}
