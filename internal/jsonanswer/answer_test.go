package jsonanswer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// text returns what an answer would write.
func text(a *Answer) string {
	w := httptest.NewRecorder()
	a.Write(w, http.StatusOK)
	return w.Body.String()
}

func encodeList(t *testing.T, r *Room, entries ...string) (*Answer, error) {
	return r.Encode(t.Context(), func(e *Encoder) {
		List(e, "list", slices.Values(entries), func(s string) any { return s })
	})
}

func TestEncode_is_JSON_as_that_of_a_struct(t *testing.T) {
	r := NewRoom(1 << 20)
	for _, list := range [][]string{{}, {"a"}, {"a", "<b>\n", strings.Repeat("c", 3*chunkBytes), "d"}, strings.Split(strings.Repeat("entry,", 20_000), ",")} {
		type answer struct {
			Name  string   `json:"name"`
			List  []string `json:"list"`
			Total int      `json:"total"`
		}
		want, err := json.Marshal(answer{"n", list, len(list)})
		require.NoError(t, err)
		a, err := r.Encode(t.Context(), func(e *Encoder) {
			e.Field("name", "n")
			List(e, "list", slices.Values(list), func(s string) any { return s })
			e.Field("total", len(list))
		})
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", text(a))
		whole, err := r.Encode(t.Context(), func(e *Encoder) { e.Value(answer{"n", list, len(list)}) })
		require.NoError(t, err)
		require.Equal(t, string(want)+"\n", text(whole))
	}
	require.Zero(t, r.Held())
}

func TestEncode_holds_what_there_is_room_for(t *testing.T) {
	r := NewRoom(200_000)
	large := strings.Repeat("x", 80_000)
	first, err := encodeList(t, r, large, large, large)
	require.NoError(t, err, "one answer may exceed the room")
	require.Greater(t, r.Held(), 240_000)

	encoded := 0
	_, err = r.Encode(t.Context(), func(e *Encoder) {
		List(e, "list", slices.Values([]int{1, 2, 3, 4, 5}), func(int) any { encoded++; return large })
	})
	require.ErrorIs(t, err, ErrNoRoom)
	require.Equal(t, 1, encoded, "entries that were encoded")
	small, err := encodeList(t, r, "small")
	require.NoError(t, err, "a small answer takes no room")
	small.Release()

	first.Release()
	first.Release()
	require.Zero(t, r.Held())
	second, err := encodeList(t, r, large)
	require.NoError(t, err)
	third, err := encodeList(t, r, large)
	require.NoError(t, err)
	_, err = encodeList(t, r, large)
	require.ErrorIs(t, err, ErrNoRoom)
	require.Equal(t, "{\"list\":[\""+large+"\"]}\n", text(second))
	third.Release()
	require.Zero(t, r.Held())
}

func TestEncode_ends_with_its_context(t *testing.T) {
	r := NewRoom(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	encoded := 0
	_, err := r.Encode(ctx, func(e *Encoder) {
		List(e, "list", slices.Values([]int{1, 2, 3, 4, 5}), func(int) any {
			encoded++
			cancel()
			return 1
		})
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, encoded)
	_, err = r.Encode(t.Context(), func(*Encoder) {
		_, err := r.Encode(ctx, func(*Encoder) {})
		require.ErrorIs(t, err, context.Canceled, "it waits for the other, until its context ends")
	})
	require.NoError(t, err)
	_, err = r.Encode(t.Context(), func(e *Encoder) { e.Field("raw", json.RawMessage("{")) })
	require.ErrorContains(t, err, "unexpected end of JSON")
	_, err = encodeList(t, r, "after an error")
	require.NoError(t, err)
}

// slowBody is a body that arrives in pieces.
type slowBody struct{ io.Reader }

func (slowBody) Close() error { return nil }

func (b slowBody) Read(p []byte) (int, error) { return b.Reader.Read(p[:min(len(p), 1000)]) }

func TestBody(t *testing.T) {
	type call struct {
		Tool  string          `json:"tool"`
		Other json.RawMessage `json:"other"`
	}
	decode := func(r *Room, text string) (call, error) {
		request := httptest.NewRequest(http.MethodPost, "/", nil)
		request.Body = slowBody{strings.NewReader(text)}
		body := r.NewBody(httptest.NewRecorder(), request, 100_000)
		defer body.Release()
		value, err := Decode[call](body)
		if err == nil {
			require.GreaterOrEqual(t, r.Held(), len(text))
		}
		return value, err
	}
	r := NewRoom(300_000)
	value, err := decode(r, " {\"tool\":\"t\", \"other\": [1]}\n ")
	require.NoError(t, err)
	require.Equal(t, call{"t", json.RawMessage("[1]")}, value)
	for text, want := range map[string]string{
		"": "it is empty", "\n": "it is empty", "null": "it is null", "[1]": "array", "{}x": "follows the JSON object, which ends at byte 2",
		"{}{}": "follows the JSON object", "{} null": "follows the JSON object", `{"tools":1}`: "unknown field", `{"tool":1}`: "tool", "{": "unexpected",
	} {
		_, err := decode(r, text)
		require.ErrorContains(t, err, want, text)
	}
	_, err = decode(r, `{"tool":"`+strings.Repeat("x", 70_000)+`"}`)
	require.NoError(t, err)
	_, err = decode(r, `{"tool":"`+strings.Repeat("x", 80_000)+`"}`)
	require.ErrorIs(t, err, ErrNoRoom)
	_, err = decode(NewRoom(1<<20), `{"tool":"`+strings.Repeat("x", 100_000)+`"}`)
	var tooLarge *http.MaxBytesError
	require.True(t, errors.As(err, &tooLarge), "%v", err)
	require.Zero(t, r.Held())
}
