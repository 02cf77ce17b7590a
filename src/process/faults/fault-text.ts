// The text of a fault on the standard error of the sandbox's own processes: class and places. Its message is left
// out, since it may quote a secret.

/** The text for standard error. Never throws. */
export function faultText(fault: unknown): string {
  if (!(fault instanceof Error)) return `${typeof fault}\n`
  const { message, stack = '' } = fault
  const at = stack.indexOf(message)
  return `${fault.constructor.name}${at === -1 ? '' : stack.slice(at + message.length)}\n`
}
