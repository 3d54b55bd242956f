package grpcclient

// unary makes attempts with send until one succeeds, or no other may follow. Its
// error is what ended the operation.
func (c *call) unary(send func(*attempt) error) error {
	if err := c.refuse(); err != nil {
		return err
	}
	for {
		a, err := c.next()
		if err != nil {
			return err
		}
		if err = a.enter(); err == nil {
			err = send(a)
		}
		a.judge(err)
		a.release()
		if err == nil {
			c.settle(a)
			return nil
		}
		if err := c.again(a, err); err != nil {
			return err
		}
	}
}
