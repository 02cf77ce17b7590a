// TLS settings of a monitor: an addition of ours to the wire form, the same for every type that dials.
import * as z from 'zod'

const pem = (what: string, label: RegExp) =>
  z.string().regex(label, `must be ${what} in PEM form (-----BEGIN …)`)

/** How to speak TLS with the target. All fields are optional. */
export const TlsSettings = z.strictObject({
  /** Certificate authorities to trust instead of the built-in ones. */
  ca: pem('one or more certificates', /-----BEGIN (TRUSTED )?CERTIFICATE-----/).optional(),
  /** Client certificate with its chain, leaf first. */
  certificate: pem('one or more certificates', /-----BEGIN CERTIFICATE-----/).optional(),
  privateKey: pem('a private key', /-----BEGIN [A-Z ]*PRIVATE KEY-----/).optional(),
  passphrase: z.string().optional(),
  /** Name sent in the handshake and checked against the certificate, instead of the host. */
  serverName: z.string().min(1).max(253).optional(),
  minVersion: z.enum(['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']).optional(),
  maxVersion: z.enum(['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']).optional(),
})
export type TlsSettings = z.infer<typeof TlsSettings>
