package records_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/facade"
	"github.com/mcpvisor/mcpvisor/mcptest"
	"github.com/mcpvisor/mcpvisor/records"
)

// The calls of a client are on disk when the writer is closed, and a change of them is noticed.
func ExampleOpen() {
	ctx := context.Background()
	parent, err := os.MkdirTemp("", "records")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(parent) }()
	dir := filepath.Join(parent, "records")
	writer, err := records.Open(dir, records.Options{Arguments: records.ArgumentsWhole})
	if err != nil {
		panic(err)
	}
	client, err := facade.New(facade.WithEndedCalls(writer.Call, true))
	if err == nil {
		err = client.Register(ctx, mcpvisor.ServerSpec{Name: "fs", InMemory: mcptest.InMemory(mcptest.Script{})})
	}
	if err != nil {
		panic(err)
	}
	_, _ = client.CallTool(ctx, "fs/echo", map[string]any{"text": "hello"})
	_ = client.Close(ctx)
	_ = writer.Close()

	_ = records.Read(dir, records.Query{Kinds: []records.Kind{records.KindCall}}, func(r records.Record) error {
		fmt.Println(r.Server, r.Target, string(r.Arguments), r.Outcome)
		return nil
	})
	report, err := records.Verify(dir, "", nil)
	fmt.Println(report.First, report.Last, err)
	// Output:
	// fs echo {"text":"hello"} answered
	// 1 4 <nil>
}
