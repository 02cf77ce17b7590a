// Definitions of monitors and groups as the database keeps them: encrypted, since they hold passwords and
// secret variables.
import type { Cipher } from '../secrets/cipher.ts'

/** A definition in the wire form. */
export type Definition = Record<string, unknown>

/** Encrypts a definition. */
export function encryptDefinition(cipher: Cipher, definition: Readonly<Definition>): string {
  return cipher.encrypt(JSON.stringify(definition))
}

/** Opens what `encryptDefinition` encrypted. Throws DecryptionError. */
export function decrypt(cipher: Cipher, encrypted: string): Definition {
  return JSON.parse(cipher.decrypt(encrypted)) as Definition
}

/** A definition as read from the database: without undefined fields. */
export function asStored(definition: object): Definition {
  return JSON.parse(JSON.stringify(definition)) as Definition
}
