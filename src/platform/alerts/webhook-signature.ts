// Signs webhooks in the way of Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over id, time and body.
import { createHmac, randomBytes } from 'node:crypto'

const PREFIX = 'whsec_'

/** A new secret of 256 random bits. */
export function newWebhookSecret(): string {
  return PREFIX + randomBytes(32).toString('base64')
}

/** The key of a secret: what follows `whsec_` is base64, any other secret is its own UTF-8. */
function keyOf(secret: string): Buffer {
  return secret.startsWith(PREFIX)
    ? Buffer.from(secret.slice(PREFIX.length), 'base64')
    : Buffer.from(secret, 'utf8')
}

/** The headers that say who posts what when. `at` in milliseconds since the Unix epoch. */
export function signatureHeaders(
  secret: string,
  { id, at, body }: { id: string; at: number; body: string },
): Record<string, string> {
  const timestamp = String(Math.floor(at / 1000))
  const mac = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`)
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${mac.digest('base64')}`,
  }
}
