package task

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Both generations are read alike.
func TestRead(t *testing.T) {
	for text, want := range map[string]Task{
		`{"task":{"taskId":"a","status":"working","statusMessage":"one\ntwo","ttl":60000,"pollInterval":500}}`:        {ID: "a", Status: Working, Message: "one two", TTL: time.Minute, Poll: 500 * time.Millisecond},
		`{"resultType":"task","taskId":"a","status":"completed","ttlMs":1e300,"pollIntervalMs":0.5,"result":{"x":1}}`: {ID: "a", Status: Completed, TTL: maxMilliseconds * time.Millisecond, Poll: 500 * time.Microsecond, Result: []byte(`{"x":1}`)},
		`{"taskId":"a","status":"failed","ttlMs":null,"pollIntervalMs":"x","error":{"code":1}}`:                       {ID: "a", Status: Failed, Failure: []byte(`{"code":1}`)},
		`{"taskId":"a","status":"input_required","pollIntervalMs":NaN,"inputRequests":{}}`:                            {},
		`{"taskId":"a","status":"input_required","inputRequests":{}}`:                                                 {ID: "a", Status: InputRequired, Requests: []byte(`{}`)},
	} {
		got, err := Read([]byte(text))
		require.Equal(t, want.ID == "", err != nil, "%s: %v", text, err)
		require.Equal(t, want, got, text)
	}
	got, err := Read([]byte(`{"taskId":"` + strings.Repeat("x", MaxID) + `","status":"cancelled","statusMessage":"` + strings.Repeat("y", 9000) + `"}`))
	require.NoError(t, err)
	require.LessOrEqual(t, len(got.Message), maxMessage)
	require.True(t, got.Status.Final())
}

// A server is asked neither without a pause nor once a day.
func TestPause(t *testing.T) {
	for poll, least := range map[time.Duration]time.Duration{0: 100 * time.Millisecond, time.Nanosecond: MinPoll, time.Second: time.Second, 24 * time.Hour: maxPoll} {
		task := Task{Poll: poll}
		for range 100 {
			pause := task.Pause(0)
			require.GreaterOrEqual(t, pause, least)
			require.LessOrEqual(t, pause, least*5/4+1)
		}
	}
	require.LessOrEqual(t, (&Task{}).Pause(1_000_000), unsaid.Max*5/4+1)
}

func TestParams(t *testing.T) {
	require.JSONEq(t, `{"taskId":"a\"b"}`, string(Params(`a"b`)))
	require.JSONEq(t, `{"taskId":"a","inputResponses":{"k":1}}`, string(UpdateParams("a", []byte(`{"k":1}`))))
}

// Only the outermost object may have a task in it: what a reader costs is its bytes, and not the bytes
// times the depth.
func TestRead_a_task_in_a_task(t *testing.T) {
	got, err := Read([]byte(`{"task":{"taskId":"a","status":"working","task":{"taskId":"b","status":"completed"}}}`))
	require.NoError(t, err)
	require.Equal(t, Task{ID: "a", Status: Working}, got)
	_, err = Read([]byte(`{"task":{"task":{"taskId":"a","status":"working"}}}`))
	require.ErrorContains(t, err, `no "taskId"`, "the reader has looked two levels deep")
}

// A task is as old as the server says, in whatever time zone; what is no time was not said.
func TestRead_when_the_task_was_made(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	for text, want := range map[string]time.Time{
		`"2026-01-02T03:04:05.678901234Z"`:      at,
		`"2026-01-02T05:34:05.678901234+02:30"`: at,
		`"2026-01-02T03:04:05"`:                 at.Truncate(time.Second),
		`"2026-01-02T03:04:05Z"`:                at.Truncate(time.Second),
		`"2026-01-02 03:04:05"`:                 {},
		`"yesterday"`:                           {}, `""`: {}, `null`: {}, `1767323045`: {}, `{}`: {}, `"0001-01-01T00:00:00Z"`: {},
		`"2026-01-02T03:04:05.` + strings.Repeat("0", 100) + `Z"`: {},
	} {
		got, err := Read([]byte(`{"taskId":"a","status":"working","createdAt":` + text + `}`))
		require.NoError(t, err, text)
		require.True(t, want.Equal(got.Created), "%s: %v", text, got.Created)
	}
}
