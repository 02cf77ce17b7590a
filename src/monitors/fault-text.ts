// What processes of ours beside people's code say of a fault on standard error: its class and its places, not its
// message, which may quote a secret.

/** The text for standard error. Never throws. */
export function faultText(fault: unknown): string {
  if (!(fault instanceof Error)) return `${typeof fault}\n`
  const { message, stack = '' } = fault
  const at = stack.indexOf(message)
  return `${fault.constructor.name}${at === -1 ? '' : stack.slice(at + message.length)}\n`
}
