package facade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
)

// An operator has looked into the ledger of the shop: the order was charged, although the host ended before the
// answer came.
func ExampleClient_ResolveKey() {
	key := mcpvisor.JournalKey{Key: "order-4711"}
	calls := &memoryJournal{entries: map[mcpvisor.JournalKey]mcpvisor.JournalEntry{
		key: {Key: key.Key, Server: "shop", Tool: "charge", State: mcpvisor.JournalSent, Updated: time.Now()}}}
	client, err := facade.New(facade.WithJournal(calls, mcpvisor.JournalKeepAll))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()

	entry, _, err := client.JournalEntry(ctx, key)
	if err != nil {
		panic(err)
	}
	err = client.ResolveKey(ctx, key, facade.KeyResolution{Seen: entry.Updated, By: "ada",
		Result: json.RawMessage(`{"content": [{"type": "text", "text": "charged, see entry 17"}]}`)})
	if err != nil {
		panic(err)
	}
	task, err := client.ResumeTask(ctx, key)
	if err != nil {
		panic(err)
	}
	result, err := task.WaitRaw(ctx)
	fmt.Println(string(result), err)
	// Output: {"content": [{"type": "text", "text": "charged, see entry 17"}]} <nil>
}
