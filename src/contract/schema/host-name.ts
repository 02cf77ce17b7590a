// The host that a monitor goes to: a name or an address, and nothing around it.
import { isIPv6 } from 'node:net'
import * as z from 'zod'

/** A host name or IP address of 1 to 2048 characters, without scheme, user, path or blanks. */
export const hostName = z
  .string()
  .min(1)
  .max(2048)
  .regex(/^[^\s/@]*$/, 'must be a host name or an address alone, without scheme, user or path')
  .refine(hasNoPort, 'must be a host name or an address alone; put the port into its own field')

/** Colons are for IPv6 addresses. What a variable brings is known at the run only. */
export function hasNoPort(text: string): boolean {
  const bare = text.replace(/^\[(.*)\]$/, '$1')
  return !bare.includes(':') || bare.includes('/') || text.includes('{{') || isIPv6(bare)
}
