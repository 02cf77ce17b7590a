// Common parts of all resources of the public API: fields that only the platform writes, and how secrets read.
import * as z from 'zod'

/** Placeholder of secret values in responses; written back it stands for the stored value. */
export const SECRET_MASK = '********'

/** Fields of the read model that a write may carry along without effect. */
export const READ_ONLY = {
  id: z.unknown().optional(),
  created_at: z.unknown().optional(),
  updated_at: z.unknown().optional(),
} as const

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
