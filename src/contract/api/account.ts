// Accounts, keys and roles of keys.
import * as z from 'zod'
import { guid } from './resource.ts'

export const ROLES = ['Admin', 'Read & Write', 'Read & Run', 'Read Only'] as const
/** Role of a key: Admin permits everything, the others what their names say. */
export type Role = (typeof ROLES)[number]

/** Kind of an operation, which decides the permitted roles. */
export type Action = 'read' | 'run' | 'write' | 'administer'

const ACTIONS: Record<Role, ReadonlySet<Action>> = {
  Admin: new Set(['read', 'run', 'write', 'administer']),
  'Read & Write': new Set(['read', 'run', 'write']),
  'Read & Run': new Set(['read', 'run']),
  'Read Only': new Set(['read']),
}

/** Whether a key with `role` may do `action`. */
export function allows(role: Role, action: Action): boolean {
  return ACTIONS[role].has(action)
}

/** An account as it is read. */
export const Account = z
  .object({
    id: guid(),
    name: z.string(),
    runtimeId: z.string().meta({ example: '2026.04' }),
    plan: z.string(),
    features: z.array(z.string()),
  })
  .meta({ id: 'Account' })
export type Account = z.infer<typeof Account>

/** The caller: each key belongs to its own service user. */
export const User = z
  .object({ id: guid(), name: z.string(), role: z.enum(ROLES), accountId: guid() })
  .meta({ id: 'User' })

/** A set of packages that scripts see. */
export const Runtime = z
  .object({
    name: z.string().meta({ example: '2026.04' }),
    stage: z.enum(['ALPHA', 'BETA', 'CURRENT', 'DEPRECATED', 'REMOVED', 'STABLE']),
    nodeJsVersion: z.string().optional(),
    multiStepSupport: z.boolean(),
    default: z.boolean(),
    runtimeEndOfLife: z.string().optional(),
    description: z.string(),
    dependencies: z.record(z.string(), z.string()),
  })
  .meta({ id: 'Runtime' })
export type Runtime = z.infer<typeof Runtime>
