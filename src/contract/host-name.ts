// The host that a monitor goes to: a name or an address, and nothing around it.
import * as z from 'zod'

/** A host name or IP address of 1 to 2048 characters, without scheme, path or blanks. */
export const hostName = z
  .string()
  .min(1)
  .max(2048)
  .regex(/^[^\s/]*$/, 'must be a host name or an address alone, without scheme or path')
