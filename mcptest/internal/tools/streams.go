package tools

// The tools of this file need the streams of the server, or its process.

func die(c *Call, a nameArgs) Result {
	c.Streams.Die(a.Name)
	return Result{NoAnswer: true}
}

func writeStderr(c *Call, a textArgs) Result {
	c.Streams.WriteStderr(a.Text)
	return textResult("written")
}

func writeJunk(c *Call, a countArgs) Result {
	c.Streams.WriteJunk(max(1, a.Count))
	return textResult("written")
}

func fork(c *Call, a struct{ Detached bool }) Result {
	child, err := c.Streams.Fork(a.Detached)
	if err != nil {
		return errorResult(err.Error())
	}
	return jsonResult(map[string]int{"pid": child})
}
