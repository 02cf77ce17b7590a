// Variables of an account, visible to all its monitors, in the public API.
import * as z from 'zod'
import { READ_ONLY, SECRET_MASK, timestamps } from './resource.ts'
import { LIMITS } from '../versions.ts'

/** How a variable may be called; an expression without anchors. */
export const VARIABLE_KEY = '[A-Za-z_][A-Za-z0-9_]{0,254}'

const key = z
  .string()
  .regex(
    new RegExp(`^${VARIABLE_KEY}$`),
    'must be letters, digits and _, not starting with a digit',
  )

const { secretCharactersMax } = LIMITS

/** Counted in UTF-16 units, as agents count a secret. */
const value = z
  .string()
  .refine((one) => one.length <= secretCharactersMax, {
    error: `must have at most ${secretCharactersMax} characters`,
  })
  .meta({ maxLength: secretCharactersMax })

/** Body that creates a variable. */
export const AccountVariableInput = z
  .strictObject({
    key,
    value,
    locked: z.boolean().default(false),
    secret: z.boolean().default(false),
    ...READ_ONLY,
  })
  .meta({
    id: 'EnvironmentVariableInput',
    example: { key: 'SHOP_TOKEN', value: 'a-secret', secret: true },
  })

/** Body that replaces a variable; its key never changes. */
export const AccountVariableChange = z
  .strictObject({
    key: z.string().optional().meta({ description: 'Must be the present key: it never changes' }),
    value,
    locked: z.boolean().default(false),
    secret: z.boolean().optional().meta({ description: 'Default: unchanged' }),
    ...READ_ONLY,
  })
  .meta({ id: 'EnvironmentVariableChange', example: { value: 'another-secret' } })

/** A variable as it is read. */
export const AccountVariable = z
  .object({
    key: z.string(),
    value: z.string().meta({ description: `\`${SECRET_MASK}\` for a secret variable` }),
    locked: z.boolean(),
    secret: z.boolean(),
    ...timestamps,
  })
  .meta({ id: 'EnvironmentVariable' })
