// Common parts of all resources of the public API: fields that only the platform writes, and how secrets read.
import * as z from 'zod'

/** Placeholder of secret values in responses; written back it stands for the stored value. */
export const SECRET_MASK = '********'

/** Fields that a write may carry along without effect. */
export function ignored<Name extends string>(
  ...names: Name[]
): Record<Name, z.ZodOptional<z.ZodUnknown>> {
  const fields = names.map((name) => [name, z.unknown().optional()])
  return Object.fromEntries(fields) as Record<Name, z.ZodOptional<z.ZodUnknown>>
}

/** Those of the read model of every resource. */
export const READ_ONLY = ignored('id', 'created_at', 'updated_at')

/** An id. */
export const guid = () => z.guid().meta({ format: 'uuid' })

/** A day in UTC. */
export const day = (description: string) =>
  z.iso.date().meta({ description, format: 'date', example: '2026-02-25' })

const instant = (description: string) =>
  z.iso.datetime({ offset: true }).meta({
    description,
    format: 'date-time',
    example: '2026-02-25T10:00:00.000Z',
  })

/** Times of creation and last change, in the form of the newer parts of the API. */
export const timestamps = {
  created_at: instant('When it was created'),
  updated_at: instant('When it was changed last').nullable(),
} as const
