// Definitions of monitors and groups as the database keeps them: sealed, since they hold passwords and
// secret variables.
import type { Monitor } from '../../contract/monitor.ts'
import type { Sealer } from '../secrets/cipher.ts'

/** A definition in the wire form. */
export type Definition = Record<string, unknown>

/** Seals a definition. */
export function sealDefinition(sealer: Sealer, definition: Readonly<Definition>): string {
  return sealer.seal(JSON.stringify(definition))
}

/** Opens what `sealDefinition` sealed. Throws SealError. */
export function openSealed(sealer: Sealer, sealed: string): Definition {
  return JSON.parse(sealer.open(sealed)) as Definition
}

/**
 * The monitor of a row's `effective` column, its group's settings counted in. It was checked when it
 * was written. Throws SealError.
 */
export function openDefinition(sealer: Sealer, effective: string): Monitor {
  return openSealed(sealer, effective) as Monitor
}

/** A definition as it comes back from the database: without what is undefined. */
export function asKept(definition: object): Definition {
  return JSON.parse(JSON.stringify(definition)) as Definition
}
